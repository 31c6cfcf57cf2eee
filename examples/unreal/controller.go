package main

import (
	"fmt"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// controller is AMyPlayerController, at either end: the server spawns one for each client, and the client has a copy of its own.
type controller struct {
	actor *rpc.Actor

	dataToStream             []MyData // DataToStream
	chunksToSend, chunksSent int      // ChunksToSend, ChunksSent
	peak                     int      // the most entries that were ever outstanding, for the story

	received []MyData // what ClientReceiveData or ServerReceiveData brought
	all      bool     // ClientNotifyAllDataReceived or ServerNotifyAllDataReceived came
}

// bindController binds the net functions' _Implementations. A client may call Server RPCs of what it owns only.
func bindController(w *rpc.World) *rpc.Binding[*controller] {
	b := rpc.Bind(w, PlayerController, func(a *rpc.Actor) *controller { return &controller{actor: a} })
	rpc.On(b, ClientReceiveData, (*controller).receiveData)
	rpc.On(b, ClientNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	rpc.Check(b, ServerReceiveData, (*controller).mayReceiveData)
	rpc.On(b, ServerReceiveData, (*controller).receiveData)
	rpc.On(b, ServerNotifyAllDataReceived, (*controller).notifyAllDataReceived)
	return b
}

// mayReceiveData is ServerReceiveData_Validate: what a client may make the server keep has an end.
func (c *controller) mayReceiveData(_ *rpc.Call, data []MyData) error {
	if most := 2 * elements; len(c.received)+len(data) > most {
		return fmt.Errorf("over %d elements", most)
	}
	return nil
}

// receiveData is ClientReceiveData_Implementation, and ServerReceiveData_Implementation.
func (c *controller) receiveData(_ *rpc.Call, data []MyData) {
	c.received = append(c.received, data...)
}

// notifyAllDataReceived is ClientNotifyAllDataReceived_Implementation. RPCs of one actor are ordered: all data came before.
func (c *controller) notifyAllDataReceived(*rpc.Call, rpc.None) { c.all = true }

func (c *controller) result() (data []MyData, all bool) { return c.received, c.all }

// receiveDataInServer is ReceiveDataInServer: ChunksToSend other than 0 starts the streaming.
func (c *controller) receiveDataInServer(data []MyData) {
	c.dataToStream, c.chunksToSend, c.chunksSent = data, chunks(len(data)), 0
}

// tickActor is TickActor with HasAuthority: while NumOutRec is below half of RELIABLE_BUFFER the next subarray leaves, and behind the
// last one a call that says so. The test stands before each subarray, so that the peak is half of the buffer - 1 + the entries of one,
// and one more for the last call.
// The article's listing notifies in every tick once ChunksToSend is 0; this one does when there was something to send.
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
	c.dataToStream, c.chunksToSend = nil, 0
	return ClientNotifyAllDataReceived.Call(c.actor, rpc.None{})
}

// sendToServer sends the other way, by stream.Calls, which is tickActor for any RPC. It learns ElementSize from the type, and has a second gate
// besides NumOutRec: on a slow path, half a reliable buffer of bulk would hold up play for seconds.
func (c *controller) sendToServer(data []MyData) (*stream.Calling, error) {
	return stream.Calls(ServerReceiveData, c.actor, data, stream.CallsConfig{End: ServerNotifyAllDataReceived})
}
