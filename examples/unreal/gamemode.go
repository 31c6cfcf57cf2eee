package main

// gameMode is AMyGameMode. It lives at the server, and has what a controller is to be sent.
type gameMode struct{ data []MyData }

// sendAtOnce is the article's first SendDataTo: one ClientReceiveData with all of Data. In Unreal IsBunchTooLarge is true, a line in
// the log says so, and the caller hears nothing. Here Call returns bunch.ErrBunchTooLarge; nothing was sent, and the connection lives.
func (g *gameMode) sendAtOnce(c *controller) error {
	return ClientReceiveData.Call(c.actor, g.data)
}

// sendInALoop is its second: a subarray an RPC, all of them now. Each is small enough, but after eight of them NumOutRec is too close
// to RELIABLE_BUFFER. As in Unreal the connection closes with ReliableBufferOverflow; here the caller has it as an error, too, and
// both logs name the RPCs that fill the buffer. sent counts those before.
func (g *gameMode) sendInALoop(c *controller) (sent int, err error) {
	for ; sent < chunks(len(g.data)); sent++ {
		if err = ClientReceiveData.Call(c.actor, chunk(g.data, sent)); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// sendDataTo is its third: the controller gets all of Data, and streams it from tick to tick.
func (g *gameMode) sendDataTo(c *controller) { c.receiveDataInServer(g.data) }

// chunks is ChunksToSend: FMath::CeilToInt of n / MAXCHUNKSIZE.
func chunks(n int) int { return (n + maxChunk - 1) / maxChunk }

// chunk is ChunkBuffer, from StartIndex and with NumElements. A subslice does, where Unreal appends to a TArray.
func chunk(data []MyData, i int) []MyData {
	return data[i*maxChunk : min((i+1)*maxChunk, len(data))]
}
