package main

import (
	"fmt"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// A controller is the article's AMyPlayerController, on either end. The server spawns one for each
// client, and that client has a copy of it.
type controller struct {
	actor *rpc.Actor

	dataToStream             []MyData // DataToStream
	chunksToSend, chunksSent int      // ChunksToSend, ChunksSent
	peak                     int      // maximum number of entries in the reliable buffer, for the story

	received []MyData // elements delivered by ClientReceiveData or ServerReceiveData
	all      bool     // ClientNotifyAllDataReceived or ServerNotifyAllDataReceived was called
}

// bindController registers the handlers of the RPCs (Unreal's _Implementation functions). A client
// may call only the Server RPCs of actors that it owns.
func bindController(w *rpc.World) *rpc.Binding[*controller] {
	b := rpc.Bind(w, PlayerController, func(a *rpc.Actor) *controller { return &controller{actor: a} })
	rpc.On(b, ClientReceiveData, (*controller).receiveData)
	rpc.On(b, ClientNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	rpc.Check(b, ServerReceiveData, (*controller).mayReceiveData)
	rpc.On(b, ServerReceiveData, (*controller).receiveData)
	rpc.On(b, ServerNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	return b
}

// mayReceiveData is ServerReceiveData_Validate. It limits how much data a client can make the
// server keep.
func (c *controller) mayReceiveData(_ *rpc.Call, data []MyData) error {
	const limit = 2 * elements
	if len(c.received)+len(data) > limit {
		return fmt.Errorf("got %d elements; the limit is %d", len(c.received)+len(data), limit)
	}
	return nil
}

// receiveData is ClientReceiveData_Implementation and ServerReceiveData_Implementation.
func (c *controller) receiveData(_ *rpc.Call, data []MyData) {
	c.received = append(c.received, data...)
}

// notifyAllDataReceived is ClientNotifyAllDataReceived_Implementation and its counterpart on the
// server. Reliable RPCs of one actor are ordered, so all data has arrived before this call.
func (c *controller) notifyAllDataReceived(*rpc.Call, rpc.None) { c.all = true }

// result returns the elements that have arrived, and whether they are complete.
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
// It sends subarrays as long as NumOutRec is below half of RELIABLE_BUFFER, and after the last one
// a call that reports the end. Since it checks NumOutRec before each subarray, the peak is half of
// the buffer - 1 + the entries of one subarray, and one more for the last call.
//
// The article's listing sends that call in every tick after ChunksToSend has reached 0. This one
// sends it only once, and only if there was something to send.
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

// sendToServer sends in the other direction with stream.Calls, which is tickActor for any RPC.
// stream.Calls derives ElementSize from the type. Besides NumOutRec it checks a second limit,
// because on a slow path, half a reliable buffer of bulk data would delay play (the game's own
// traffic) for seconds.
func (c *controller) sendToServer(data []MyData) (*stream.Calling, error) {
	return stream.Calls(ServerReceiveData, c.actor, data, stream.CallsConfig{End: ServerNotifyAllDataReceived})
}
