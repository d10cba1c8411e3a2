// Drives a proxy by toxiproxy-node-client, as any user of Toxiproxy would: argv = API, upstream HOST:PORT.
const net = require("net");
const assert = require("assert");
const { Toxiproxy, Toxic } = require("toxiproxy-node-client");

const [api, upstream] = process.argv.slice(2);

function roundTripMs(listen) {
  const [host, port] = listen.split(":");
  return new Promise((resolve, reject) => {
    const begin = Date.now();
    const socket = net.connect(Number(port), host, () => socket.write("hello"));
    socket.on("data", (data) => { socket.destroy(); resolve(data.toString() === "hello" ? Date.now() - begin : -1); });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
  });
}

async function main() {
  const toxiproxy = new Toxiproxy(api);
  assert.ok((await toxiproxy.getVersion()).includes("version"));
  const proxy = await toxiproxy.createProxy({ name: "echo", listen: "localhost:0", upstream });
  assert.strictEqual(proxy.enabled, true);
  await assert.rejects(toxiproxy.createProxy({ name: "echo", listen: "localhost:0", upstream }), /409/);
  await assert.rejects(toxiproxy.get("nothing"), /404/);
  assert.ok((await roundTripMs(proxy.listen)) >= 0);

  const every = {
    latency: { latency: 100, jitter: 0 }, bandwidth: { rate: 100 }, slow_close: { delay: 10 },
    timeout: { timeout: 60000 }, slicer: { average_size: 2, size_variation: 1, delay: 10 },
    limit_data: { bytes: 100000 }, reset_peer: { timeout: 60000 },
  };
  for (const [type, attributes] of Object.entries(every)) {
    for (const stream of ["downstream", "upstream"]) {
      const toxic = await proxy.addToxic({ type, name: `my-${type}`, stream, toxicity: 1.0, attributes });
      for (const [key, value] of Object.entries(attributes)) assert.strictEqual(toxic.attributes[key], value);
      const read = await proxy.getToxic(`my-${type}`);
      assert.deepStrictEqual(read.toJson(), toxic.toJson());
      await toxic.remove();
    }
  }
  const slow = await proxy.addToxic({ type: "latency", attributes: { latency: 100 } });
  assert.strictEqual(slow.name, "latency_downstream");
  assert.strictEqual(slow.toxicity, 1);
  assert.ok((await roundTripMs(proxy.listen)) >= 100);
  const slower = await slow.update({ attributes: { latency: 200 } });
  assert.strictEqual(slower.attributes.latency, 200);
  assert.ok((await roundTripMs(proxy.listen)) >= 200);
  await assert.rejects(proxy.addToxic({ type: "latency", attributes: { latency: 1 } }), /409/);
  await assert.rejects(proxy.addToxic({ type: "nonsense", attributes: {} }), /400/);

  const down = await proxy.update({ enabled: false, listen: proxy.listen, upstream: proxy.upstream });
  assert.strictEqual(down.enabled, false);
  await assert.rejects(roundTripMs(proxy.listen));
  await toxiproxy.reset();
  const again = await toxiproxy.get("echo");
  assert.strictEqual(again.enabled, true);
  assert.strictEqual(again.listen, proxy.listen);
  assert.ok((await roundTripMs(proxy.listen)) < 100);

  const made = await toxiproxy.populate([
    { name: "one", listen: "localhost:0", upstream, enabled: true },
    { name: "two", listen: "localhost:0", upstream, enabled: false },
  ]);
  assert.strictEqual(made.one.enabled, true);
  assert.strictEqual(made.two.enabled, false);
  assert.deepStrictEqual(Object.keys(await toxiproxy.getAll()).sort(), ["echo", "one", "two"]);
  for (const one of Object.values(await toxiproxy.getAll())) await one.remove();
  assert.deepStrictEqual(await toxiproxy.getAll(), {});
  console.log("all as Toxiproxy does");
}

main().catch((error) => { console.error(error); process.exit(1); });
