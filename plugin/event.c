/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of the devices. */
#include "event.h"

#include <errno.h>

#include "comm.h"
#include "failover.h"
#include "message.h"

enum { EVENTS_MAX = 16 }; /* taken in one look */

/* A port may come back, a device that is broken does not. */
static void note(struct net_nic *nic, enum ibv_event_type type)
{
	enum net_nic_state state = atomic_load(&nic->state);

	if (type == IBV_EVENT_DEVICE_FATAL)
		state = NET_NIC_BROKEN;
	else if (type == IBV_EVENT_PORT_ERR && state == NET_NIC_UP)
		state = NET_NIC_PORT_DOWN;
	else if (type == IBV_EVENT_PORT_ACTIVE && state == NET_NIC_PORT_DOWN)
		state = NET_NIC_UP;
	atomic_store(&nic->state, state);
}

/* By one engine at a time; what it hears is for all. */
static void listen_to(struct net_nic *nic)
{
	struct srd_event event;

	if (atomic_exchange(&nic->heard, true))
		return;
	for (int i = 0; i < EVENTS_MAX && srd_dev_event(&nic->dev, 0, &event) == 0; i++)
		note(nic, event.type);
	atomic_store(&nic->heard, false);
}

static void take_out(struct net_engine *e, int rail, enum net_nic_state state)
{
	bool broken = state == NET_NIC_BROKEN;

	for (struct net_comm *c = e->comms; c; c = c->next) {
		if (rail >= c->nrails || c->closed || c->err ||
		    net_failover_device(c, rail,
					broken ? "the device is broken" : "its port is down"))
			continue;
		net_comm_fail(c, broken ? -EIO : -ENETDOWN,
			      broken ? "the device, by its own word," : "the port of the device",
			      rail, NULL);
		net_message_over(c);
	}
}

void net_event_look(struct net_engine *e)
{
	for (int i = 0; i < e->nrails; i++) {
		struct net_nic *nic = &e->dev->nic[i];
		enum net_nic_state state;

		listen_to(nic);
		state = atomic_load(&nic->state);
		if (state != NET_NIC_UP && !(e->out & 1u << i))
			take_out(e, i, state);
		if (state != NET_NIC_UP)
			e->out |= (uint8_t)(1u << i);
		else
			e->out &= (uint8_t) ~(1u << i);
	}
}

void net_event_tell(struct net_engine *e)
{
	net_owner_enter(&e->owner);
	net_event_look(e);
	net_owner_leave(&e->owner);
}

uint8_t net_event_broken(struct net_dev *dev)
{
	uint8_t out = 0;

	for (int i = 0; i < dev->nrails; i++) {
		listen_to(&dev->nic[i]);
		if (atomic_load(&dev->nic[i].state) == NET_NIC_BROKEN)
			out |= (uint8_t)(1u << i);
	}
	return out;
}
