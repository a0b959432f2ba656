/* SPDX-License-Identifier: BSD-3-Clause */
/* An RDMA write of a queue pair to itself; docs/libsrd.md shows the body. What fails is on stderr.
 */
#include <err.h>
#include <srd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(void)
{
	char buf[128] = "hello, EFA";
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	time_t end = time(NULL) + 10;
	struct srd_dev_info info;
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_mr mr;
	struct srd_ep ep;
	struct srd_peer peer;
	struct srd_wr wr = {
		.op = IBV_WR_RDMA_WRITE, .to = &peer, .nsge = 1, .raddr = (uintptr_t)buf + 64};
	struct srd_wc wc = {.status = IBV_WC_GENERAL_ERR};

	struct srd_qp_attr at = {.send_cq = &cq, .recv_cq = &cq, .ops = IBV_QP_EX_WITH_RDMA_WRITE};
	if (srd_dev_list(&info, 1, true) < 1 || srd_dev_open(&dev, info.name) ||
	    srd_pd_init(&pd, &dev) || srd_cq_init(&cq, &dev, &(struct srd_cq_attr){0}) ||
	    srd_qp_init(&qp, &pd, &at) || srd_qp_prepare(&qp, 0x1234, SRD_RNR_DEFAULT) ||
	    srd_mr_init(&mr, &pd, buf, sizeof(buf), access) || srd_sge(wr.sge, &mr, 0, 64))
		errx(1, "no EFA here, or the line above says why");
	srd_ep_local(&qp, &ep); /* of another process: 24 bytes, by srd_ep_pack(), and its rkey */
	wr.rkey = mr.rkey;
	if (srd_peer_init(&peer, &pd, &ep) || srd_post(&qp, &wr, 1))
		exit(1);
	while (srd_cq_poll(&cq, &wc, 1) == 0 && time(NULL) < end)
		;
	puts(srd_wc_err(&wc) ? strerror(-srd_wc_err(&wc)) : buf + 64);
	srd_peer_fini(&peer);
	srd_mr_fini(&mr);
	srd_qp_fini(&qp);
	srd_cq_fini(&cq);
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
	return srd_wc_err(&wc) != 0;
}
