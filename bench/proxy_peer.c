/* Both ends of bench_proxy.py. The first byte of a connection says what the server does with it:
 * 'e' echo, 's' send without end, 't' send CLOCK_MONOTONIC as 8 bytes every 20 ms.
 * proxy_peer serve PORT | ping PORT COUNT | pull PORT SECONDS | delays PORT STREAMS SECONDS
 * ping and delays print one number of ns a line, pull prints bytes per second. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void nodelay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void sleep_until(int64_t when) {
    struct timespec t = {when / 1000000000LL, when % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *serve_one(void *arg) {
    int fd = (int)(intptr_t)arg;
    static char block[1 << 17];
    char mode = 0, buffer[4096];
    nodelay(fd);
    if (read(fd, &mode, 1) == 1) {
        if (mode == 'e')
            for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0 && write(fd, buffer, n) == n;) {}
        else if (mode == 's')
            while (write(fd, block, sizeof block) > 0) {}
        else if (mode == 't')
            for (int64_t next = now_ns();; next += 20000000) {
                sleep_until(next);
                int64_t stamp = now_ns();
                if (write(fd, &stamp, 8) != 8) break;
            }
    }
    close(fd);
    return NULL;
}

static void serve(int port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 512)) exit(1);
    puts("ready");
    fflush(stdout);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
}

static int dial(int port, char mode) {
    struct sockaddr_in at = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, sizeof at) || write(fd, &mode, 1) != 1) exit(1);
    nodelay(fd);
    return fd;
}

static void ping(int port, int count) {
    int fd = dial(port, 'e');
    char token[160] = "data: {}";
    for (int i = 0; i < count; i++) {
        int64_t begin = now_ns();
        if (write(fd, token, sizeof token) < 0) exit(1);
        for (size_t got = 0; got < sizeof token;) {
            ssize_t n = read(fd, token + got, sizeof token - got);
            if (n <= 0) exit(1);
            got += n;
        }
        printf("%lld\n", (long long)(now_ns() - begin));
        usleep(500);
    }
}

static void pull(int port, double seconds) {
    static char buffer[1 << 18];
    int fd = dial(port, 's');
    int64_t begin = now_ns(), total = 0, end = begin + (int64_t)(seconds * 1e9);
    while (now_ns() < end) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0) exit(1);
        total += n;
    }
    printf("%.0f\n", total / ((now_ns() - begin) / 1e9));
}

static void delays(int port, int streams, double seconds) {
    struct pollfd fds[1024];
    for (int i = 0; i < streams; i++) {
        fds[i] = (struct pollfd){dial(port, 't'), POLLIN, 0};
        usleep(300);  /* the streams' beats are spread, as tokens of many requests are */
    }
    int64_t begin = now_ns(), end = begin + (int64_t)(seconds * 1e9);
    int64_t settled = begin + 1000000000LL;
    while (now_ns() < end && poll(fds, streams, 1000) >= 0)
        for (int i = 0; i < streams; i++) {
            if (!(fds[i].revents & POLLIN)) continue;
            int64_t stamps[512];
            ssize_t n = recv(fds[i].fd, stamps, sizeof stamps, MSG_DONTWAIT);
            int64_t at = now_ns();
            if (n <= 0 || n % 8) exit(1);
            if (at > settled)
                for (int k = 0; k < n / 8; k++) printf("%lld\n", (long long)(at - stamps[k]));
        }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc < 3) return 2;
    int port = atoi(argv[2]);
    if (!strcmp(argv[1], "serve")) serve(port);
    if (!strcmp(argv[1], "ping")) ping(port, atoi(argv[3]));
    if (!strcmp(argv[1], "pull")) pull(port, atof(argv[3]));
    if (!strcmp(argv[1], "delays")) delays(port, atoi(argv[3]), atof(argv[4]));
    return 0;
}
