package stream_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// A world of regions, each sent as a snapshot and kept up to date by an RPC. In
// a package that client and server share.
var (
	terrain = stream.NewArray[row]("terrain")
	land    = rpc.NewClass("Land")
	dig     = rpc.Client[edit](land, "Dig", rpc.Reliable)
)

// edit changes one block. It carries the version that it makes of its region.
type edit struct {
	Region  uint32
	Version uint64
	At      uint16
	Block   uint16
}

// row is an element that writes itself, at two bytes a block: see NewArray.
type row [64]uint16

func (r row) AppendBinary(b []byte) ([]byte, error) {
	for _, block := range r {
		b = binary.LittleEndian.AppendUint16(b, block)
	}
	return b, nil
}

func (r *row) UnmarshalBinary(b []byte) error {
	if len(b) != 2*len(r) {
		return fmt.Errorf("a row of %d bytes", len(b))
	}
	for i := range r {
		r[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return nil
}

func (row) MaxEncodedSize() int { return 2 * len(row{}) }

// region is the client's copy of a region.
type region struct {
	version uint64 // of rows; 0 = no snapshot has come
	rows    []row
	waiting []edit // in the order in which they came, which is that of their versions
}

// take applies a snapshot, unless the current one is as new: a transfer that
// was canceled for a newer one may have been complete.
func (r *region) take(version uint64, rows []row) {
	if version <= r.version {
		return
	}
	r.version, r.rows = version, rows
	waiting := r.waiting
	r.waiting = nil
	for _, e := range waiting {
		r.edit(e)
	}
}

// edit applies an edit. One that the snapshot already contains is dropped; one
// for a snapshot that has not arrived yet waits.
func (r *region) edit(e edit) {
	switch {
	case e.Version <= r.version:
	case r.version == 0 || e.Version > r.version+1:
		r.waiting = append(r.waiting, e)
	default:
		r.version++
		r.rows[e.At/64][e.At%64] = e.Block
	}
}

// regions is the client's world.
type regions map[uint32]*region

func (all regions) of(id uint32) *region {
	if all[id] == nil {
		all[id] = &region{}
	}
	return all[id]
}

// receive makes a client's regions from the snapshots and edits that arrive.
func (all regions) receive(world *rpc.World, streams *stream.Streams) {
	client := rpc.Bind(world, land, func(*rpc.Actor) regions { return all })
	rpc.On(client, dig, func(all regions, _ *rpc.Call, e edit) { all.of(e.Region).edit(e) })
	terrain.Handle(streams, func(in *stream.IncomingArray[row]) {
		var id uint32
		var version uint64
		if _, err := fmt.Sscanf(in.Name(), "%d at %d", &id, &version); err != nil {
			in.Reject(err)
			return
		}
		var rows []row
		in.OnBatch(func(batch []row) { rows = append(rows, batch...) })
		in.OnEnd(func(err error) {
			if err == nil {
				all.of(id).take(version, rows)
			}
		})
	})
}

// send starts, at the server, a snapshot of a region. The transfer needs a
// copy: rows change before it is done.
func send(to *stream.Peer, id uint32, version uint64, rows []row) (*stream.Transfer, error) {
	return terrain.Start(to, slices.Clone(rows), stream.Name(fmt.Sprintf("%d at %d", id, version)))
}

// A snapshot by stream and edits by RPC arrive in any order.
func Example_snapshotsAndEdits() {
	client := regions{}
	// client.receive(world, streams) has OnEnd and the handler of dig call these.
	client.of(7).edit(edit{Region: 7, Version: 6, At: 1, Block: 60}) // the snapshot has it
	client.of(7).edit(edit{Region: 7, Version: 7, At: 2, Block: 70})
	client.of(7).take(6, []row{{1: 60}})
	fmt.Println(client[7].version, client[7].rows[0][:3])
	client.of(7).edit(edit{Region: 7, Version: 8, At: 1, Block: 80})
	client.of(7).take(5, []row{{}}) // canceled for the one above, and complete all the same
	fmt.Println(client[7].version, client[7].rows[0][:3])

	// Output:
	// 7 [0 60 70]
	// 8 [0 80 70]
}

// TestSnapshotsAndEditsConverge runs them over a bad network: edits continue
// while snapshots are in progress, and are canceled for newer ones.
func TestSnapshotsAndEditsConverge(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		world := func() (*rpc.World, *stream.Streams) {
			w, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			streams, err := stream.Install(w, stream.Config{})
			require.NoError(t, err)
			return w, streams
		}
		server, down := world()
		client, up := world()
		copied := regions{}
		copied.receive(client, up)
		lands := rpc.Bind(server, land, func(*rpc.Actor) regions { return nil })
		net.Server(server)
		net.Client(client)
		here, _, err := rpc.Spawn(lands, server.Conns()[0], nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		peer := down.Peer(server.Conns()[0])

		rows := make([]row, 64)
		var last *stream.Transfer
		for version := uint64(1); version <= 400; version++ {
			e := edit{Region: 1, Version: version, At: uint16(version * 37 % 4096), Block: uint16(version)}
			rows[e.At/64][e.At%64] = e.Block
			require.NoError(t, dig.Call(here, e))
			if version%20 == 10 {
				if last != nil {
					last.Cancel(nil)
				}
				last, err = send(peer, 1, version, rows)
				require.NoError(t, err)
			}
			net.Advance(time.Second / 30)
		}
		require.True(t, net.Until(time.Minute, func() bool { return copied.of(1).version == 400 }))
		require.Equal(t, rows, copied[1].rows)
		require.Empty(t, copied[1].waiting)
	})
}
