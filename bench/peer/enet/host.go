//go:build enet

package enet

/*
#cgo LDFLAGS: -lenet
#include <enet/enet.h>
#include <stdlib.h>
#include <string.h>

static ENetHost *bench_host(enet_uint16 port, int server, size_t channels) {
	ENetAddress a;
	memset(&a, 0, sizeof a);
	enet_address_set_host_ip(&a, "127.0.0.1");
	a.port = port;
	ENetHost *h = enet_host_create(server ? &a : NULL, 1, channels, 0, 0);
	if (h != NULL) {
		enet_socket_set_option(h->socket, ENET_SOCKOPT_RCVBUF, 4 << 20);
		enet_socket_set_option(h->socket, ENET_SOCKOPT_SNDBUF, 4 << 20);
	}
	return h;
}

static int bench_port(ENetHost *h) {
	ENetAddress a;
	return enet_socket_get_address(h->socket, &a) == 0 ? a.port : -1;
}

static ENetPeer *bench_connect(ENetHost *h, enet_uint16 port, size_t channels) {
	ENetAddress a;
	memset(&a, 0, sizeof a);
	enet_address_set_host_ip(&a, "127.0.0.1");
	a.port = port;
	return enet_host_connect(h, &a, channels, 0);
}

static void ENET_CALLBACK bench_freed(ENetPacket *packet) {
	*(size_t *)packet->userData -= packet->dataLength;
}

static int bench_send(ENetPeer *p, enet_uint8 channel, void *data, size_t n, size_t *held) {
	ENetPacket *packet = enet_packet_create(data, n, ENET_PACKET_FLAG_RELIABLE);
	if (packet == NULL) return -1;
	packet->userData = held;
	packet->freeCallback = bench_freed;
	*held += n;
	if (enet_peer_send(p, channel, packet) != 0) {
		enet_packet_destroy(packet);
		return -1;
	}
	return 0;
}
*/
import "C"

import (
	"errors"
	"slices"
	"sync"
	"unsafe"
)

// A host is one end. ENet's hosts may be used by only one thread at a time.
type host struct {
	c         *C.ENetHost
	connected chan struct{}
	on        func(channel int, packet []byte)
	stop      chan struct{}
	work      sync.WaitGroup

	turn sync.Mutex // held while ENet is called
	peer *C.ENetPeer
	held *C.size_t // bytes that ENet has accepted and that are not acknowledged

	mu    sync.Mutex
	queue []packet // packets to send
}

type packet struct {
	channel int
	data    []byte
}

func newHost(server bool, on func(channel int, packet []byte)) (*host, error) {
	if C.enet_initialize() != 0 {
		return nil, errors.New("enet: no initialization")
	}
	flag := C.int(0)
	if server {
		flag = 1
	}
	c := C.bench_host(0, flag, channels)
	if c == nil {
		return nil, errors.New("enet: no host")
	}
	return &host{c: c, held: (*C.size_t)(C.calloc(1, C.sizeof_size_t)), on: on, connected: make(chan struct{}), stop: make(chan struct{})}, nil
}

func (h *host) port() int { return int(C.bench_port(h.c)) }

func (h *host) connect(port int) error {
	if h.peer = C.bench_connect(h.c, C.enet_uint16(port), channels); h.peer == nil {
		return errors.New("enet: no peer")
	}
	return nil
}

// start services the host until close is called.
func (h *host) start() {
	h.work.Go(func() {
		defer C.free(unsafe.Pointer(h.held))
		defer C.enet_host_destroy(h.c) // frees packets
		for {
			select {
			case <-h.stop:
				return
			default:
			}
			wait := C.enet_uint32(C.ENET_SOCKET_WAIT_RECEIVE)
			C.enet_socket_wait(h.c.socket, &wait, 1)
			h.turn.Lock()
			h.service()
			h.sendQueued()
			h.turn.Unlock()
		}
	})
}

// service handles what has arrived, and runs timers.
func (h *host) service() {
	var e C.ENetEvent
	for C.enet_host_service(h.c, &e, 0) > 0 {
		switch e._type {
		case C.ENET_EVENT_TYPE_CONNECT:
			h.peer = e.peer
			close(h.connected)
		case C.ENET_EVENT_TYPE_RECEIVE:
			h.on(int(e.channelID), unsafe.Slice((*byte)(e.packet.data), int(e.packet.dataLength)))
			C.enet_packet_destroy(e.packet)
		}
	}
}

// mostHeld is how many bytes ENet may hold before pieces of a blob wait outside
// of it: twice its window. Its one queue holds the packets of all channels.
const mostHeld = 128 << 10

// sendQueued gives queued packets to ENet, of a blob only as many as there is
// room for, and sends them.
func (h *host) sendQueued() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 || h.peer == nil {
		return
	}
	h.queue = slices.DeleteFunc(h.queue, func(p packet) bool {
		if p.channel == channelBlob && *h.held >= mostHeld {
			return false
		}
		C.bench_send(h.peer, C.enet_uint8(p.channel), unsafe.Pointer(&p.data[0]), C.size_t(len(p.data)), h.held)
		return true
	})
	C.enet_host_flush(h.c)
}

// send queues a packet, whose bytes must not change, and sends it, unless the
// host is being serviced: then the service sends it.
func (h *host) send(channel int, data []byte) {
	h.mu.Lock()
	h.queue = append(h.queue, packet{channel, data})
	h.mu.Unlock()
	if h.turn.TryLock() {
		defer h.turn.Unlock()
		h.sendQueued()
	}
}

func (h *host) close() {
	close(h.stop)
	h.work.Wait()
}

func version() (major, minor, patch int) {
	v := int(C.enet_linked_version())
	return v >> 16 & 255, v >> 8 & 255, v & 255
}
