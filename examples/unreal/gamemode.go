package main

// A gameMode is the article's AMyGameMode. It exists only on the server, and has the data that
// controllers send.
type gameMode struct{ data []MyData }

// sendAtOnce is the article's first SendDataTo, which makes a single call of ClientReceiveData with
// all of Data.
//
// In Unreal, IsBunchTooLarge logs a line, but the caller doesn't notice. Here Call returns
// bunch.ErrBunchTooLarge, sends nothing, and leaves the connection open.
func (g *gameMode) sendAtOnce(c *controller) error {
	return ClientReceiveData.Call(c.actor, g.data)
}

// sendInALoop is the second SendDataTo, which immediately makes one RPC for each subarray.
//
// Each RPC is small enough, but after eight or nine of them, the next would exceed RELIABLE_BUFFER.
// As in Unreal, the connection is closed with ReliableBufferOverflow. Unlike there, the caller gets
// the error, and both logs name the RPCs that fill the buffer.
//
// sent is the number of RPCs that succeeded.
func (g *gameMode) sendInALoop(c *controller) (sent int, err error) {
	for ; sent < chunks(len(g.data)); sent++ {
		if err = ClientReceiveData.Call(c.actor, chunk(g.data, sent)); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// sendDataTo is the third SendDataTo, which passes all of Data to the controller, and the
// controller streams it from tick to tick.
func (g *gameMode) sendDataTo(c *controller) { c.receiveDataInServer(g.data) }

// chunks is ChunksToSend: FMath::CeilToInt of n / MAXCHUNKSIZE.
func chunks(n int) int { return (n + maxChunk - 1) / maxChunk }

// chunk is ChunkBuffer, with NumElements elements from StartIndex. It is just a subslice, while
// Unreal copies the elements to another TArray.
func chunk(data []MyData, i int) []MyData {
	return data[i*maxChunk : min((i+1)*maxChunk, len(data))]
}
