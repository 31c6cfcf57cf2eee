package main

import (
	"fmt"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// A controller is AMyPlayerController, on either end. The server spawns one for each
// client, and the client has a copy of its own.
type controller struct {
	actor *rpc.Actor

	dataToStream             []MyData // DataToStream
	chunksToSend, chunksSent int      // ChunksToSend, ChunksSent
	peak                     int      // maximum number of outstanding entries, for the story

	received []MyData // elements delivered by ClientReceiveData or ServerReceiveData
	all      bool     // ClientNotifyAllDataReceived or ServerNotifyAllDataReceived was called
}

// bindController binds the net functions' _Implementations. A client may call only the
// Server RPCs of actors that it owns.
func bindController(w *rpc.World) *rpc.Binding[*controller] {
	b := rpc.Bind(w, PlayerController, func(a *rpc.Actor) *controller { return &controller{actor: a} })
	rpc.On(b, ClientReceiveData, (*controller).receiveData)
	rpc.On(b, ClientNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	rpc.Check(b, ServerReceiveData, (*controller).mayReceiveData)
	rpc.On(b, ServerReceiveData, (*controller).receiveData)
	rpc.On(b, ServerNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	return b
}

// mayReceiveData is ServerReceiveData_Validate. It limits how much a client can make the
// server keep.
func (c *controller) mayReceiveData(_ *rpc.Call, data []MyData) error {
	const limit = 2 * elements
	if len(c.received)+len(data) > limit {
		return fmt.Errorf("over %d elements", limit)
	}
	return nil
}

// receiveData is ClientReceiveData_Implementation and ServerReceiveData_Implementation.
func (c *controller) receiveData(_ *rpc.Call, data []MyData) {
	c.received = append(c.received, data...)
}

// notifyAllDataReceived is ClientNotifyAllDataReceived_Implementation and its server's
// counterpart. RPCs of one actor are ordered, so all data arrived before it.
func (c *controller) notifyAllDataReceived(*rpc.Call, rpc.None) { c.all = true }

// result returns the elements that have arrived, and whether they are all of them.
func (c *controller) result() (data []MyData, all bool) { return c.received, c.all }

// receiveDataInServer is ReceiveDataInServer. It starts the streaming by setting
// ChunksToSend.
func (c *controller) receiveDataInServer(data []MyData) {
	c.dataToStream = data
	c.chunksToSend = chunks(len(data))
	c.chunksSent = 0
}

// tickActor is TickActor with HasAuthority.
//
// While NumOutRec is below half of RELIABLE_BUFFER, it sends the next subarray. After the
// last subarray it sends a call that says so. It checks NumOutRec before each subarray.
// So the peak is half of the buffer - 1 + the entries of one subarray, and one more for
// the last call.
//
// The article's listing notifies in every tick once ChunksToSend is 0. This one notifies
// once, and only if there was something to send.
func (c *controller) tickActor() error {
	if c.chunksToSend == 0 {
		return nil
	}
	channel := c.actor.Channel(c.actor.Conn()) // NetConnection->FindActorChannelRef(this)
	for c.chunksSent < c.chunksToSend {
		if numOutRec, reliableBuffer := channel.Reliable(); numOutRec >= reliableBuffer/2 {
			return nil
		}
		if err := ClientReceiveData.Call(c.actor, chunk(c.dataToStream, c.chunksSent)); err != nil {
			return err
		}
		c.chunksSent++
		numOutRec, _ := channel.Reliable()
		c.peak = max(c.peak, numOutRec)
	}
	c.dataToStream = nil
	c.chunksToSend = 0
	return ClientNotifyAllDataReceived.Call(c.actor, rpc.None{})
}

// sendToServer sends in the other direction with stream.Calls, which is tickActor for any
// RPC. stream.Calls learns ElementSize from the type. Besides NumOutRec it has a second
// gate, because on a slow path half a reliable buffer of bulk would delay play for
// seconds.
func (c *controller) sendToServer(data []MyData) (*stream.Calling, error) {
	return stream.Calls(ServerReceiveData, c.actor, data, stream.CallsConfig{End: ServerNotifyAllDataReceived})
}
