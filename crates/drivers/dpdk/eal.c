/* DPDK's environment, once for a process, and what it has to say. */
#define _GNU_SOURCE

#include "inside.h"

#include <errno.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

struct qd_host qd_host;

/* Lines of the log go to Quiver's. */
static ssize_t
told(void *cookie, const char *text, size_t bytes)
{
	(void)cookie;
	for (size_t at = 0; at < bytes;) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t len = end != NULL ? (size_t)(end - text) - at : bytes - at;

		if (len != 0)
			qd_host.log((uint32_t)rte_log_cur_msg_loglevel(), text + at, (uint32_t)len);
		at += len + 1;
	}
	return (ssize_t)bytes;
}

int
qd_init(const struct qd_host *host, int argc, char **argv)
{
	cookie_io_functions_t io = { .write = told };

	qd_host = *host;
	FILE *log = fopencookie(NULL, "w", io);

	if (log == NULL)
		return -errno;
	setvbuf(log, NULL, _IOLBF, 0);
	if (rte_openlog_stream(log) != 0)
		return -ENOMEM;
	rte_log_set_global_level(RTE_LOG_WARNING);
	if (rte_eal_init(argc, argv) < 0)
		return rte_errno != 0 ? -rte_errno : -EINVAL;
	return 0;
}
