"""The first thing that runs in every helper: ties it to its parent, puts it in its place, then execs.

    python -I -S launcher.py --parent PID [--netns-fd N] [--cgroup FOLDER]... [--nice N] -- COMMAND [ARG...]

Run as a plain script (standard library only, no site), since each run starts several. The parent must
start it from its main thread: PR_SET_PDEATHSIG fires when the *thread* that forked ends (prctl(2)).
A grandchild is not covered by it, hence the cgroup, which the undo kills as a whole.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    options, command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    pairs = list(zip(options[::2], options[1::2], strict=True))
    parent = next(int(value) for key, value in pairs if key == "--parent")
    os.setsid()  # a Ctrl-C in the terminal is for the orchestrator alone
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it died before the line above: nobody would ever end us
    for key, value in pairs:
        if key == "--netns-fd":
            if libc.setns(int(value), 0):
                sys.exit(f"launcher: setns: {os.strerror(ctypes.get_errno())}")
            os.close(int(value))
        elif key == "--cgroup":
            with open(os.path.join(value, "cgroup.procs"), "w") as procs:
                procs.write(str(os.getpid()))
        elif key == "--nice":
            with contextlib.suppress(PermissionError):  # without CAP_SYS_NICE it runs like everybody else
                os.setpriority(os.PRIO_PROCESS, 0, int(value))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would hand that on
    try:
        os.execvp(command[0], command)
    except OSError as e:
        sys.exit(f"launcher: {command[0]}: {e.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
