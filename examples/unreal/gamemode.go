package main

// A gameMode is AMyGameMode. It exists on the server, and has the data that controllers
// should send.
type gameMode struct{ data []MyData }

// sendAtOnce is the article's first SendDataTo: one ClientReceiveData with all of Data.
//
// In Unreal IsBunchTooLarge is true and logs a line, and the caller is not told. Here
// Call returns bunch.ErrBunchTooLarge. Nothing is sent, and the connection stays open.
func (g *gameMode) sendAtOnce(c *controller) error {
	return ClientReceiveData.Call(c.actor, g.data)
}

// sendInALoop is the second SendDataTo: one RPC for each subarray, all of them now.
//
// Each RPC is small enough, but after eight of them NumOutRec is too close to
// RELIABLE_BUFFER. As in Unreal the connection closes with ReliableBufferOverflow. Here
// the caller also gets the error, and both logs name the RPCs that fill the buffer.
//
// sent is the number of RPCs that were sent before.
func (g *gameMode) sendInALoop(c *controller) (sent int, err error) {
	for ; sent < chunks(len(g.data)); sent++ {
		if err = ClientReceiveData.Call(c.actor, chunk(g.data, sent)); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// sendDataTo is the third SendDataTo. The controller gets all of Data, and streams it
// from tick to tick.
func (g *gameMode) sendDataTo(c *controller) { c.receiveDataInServer(g.data) }

// chunks is ChunksToSend: FMath::CeilToInt of n / MAXCHUNKSIZE.
func chunks(n int) int { return (n + maxChunk - 1) / maxChunk }

// chunk is ChunkBuffer, from StartIndex and with NumElements. A subslice is enough where
// Unreal appends to a TArray.
func chunk(data []MyData, i int) []MyData {
	return data[i*maxChunk : min((i+1)*maxChunk, len(data))]
}
