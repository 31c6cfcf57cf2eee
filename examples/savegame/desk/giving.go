package desk

import (
	"bytes"
	"math"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// The server's side of a get.

func (k *clerk) get(call *rpc.Call, a getArgs) (versions.Version, error) {
	return answer(k, askGet, call, func() (v versions.Version, err error) {
		err = k.begin(a.Number, func(e *errand) error {
			u, err := k.saves()
			if err != nil {
				return err
			}
			if e.open, err = u.Open(e.ctx, a.Name, a.Version); err != nil {
				return err
			}
			v, e.slices, e.rate = e.open.Version, a.Slices, a.Rate
			e.blobs = k.inbox.expect(bitmaps, a.Number)
			b := e.open.Manifest
			_, err = manifests.Start(k.server.streams.Peer(k.conn), bytes.NewReader(b), int64(len(b)), stream.Name(a.Number.String()))
			return err
		})
		return v, err
	})
}

func (k *clerk) fetch(call *rpc.Call, n number) (rpc.None, error) {
	return answer(k, askFetch, call, func() (none rpc.None, err error) {
		return none, k.step(n, func(e *errand) bool { return e.open != nil && e.steps == 0 }, true, (*errand).give)
	})
}

// give sends the chunks that the client wants.
func (e *errand) give() error {
	k := e.clerk
	bitmap, err := takeAll(e.ctx, k.conn, e.blobs, maxManifest)
	if err != nil {
		return err
	}
	m, err := manifest.Parse(e.open.Manifest, manifest.Limits{Bytes: math.MaxInt64})
	if err != nil {
		return err
	}
	indices, err := fromBitmap(bitmap, len(m.Chunks()))
	if err != nil {
		return err
	}
	var opts []stream.Option
	if e.slices {
		opts = append(opts, stream.Via(stream.Slices{}))
	}
	s := shipment{e.number, indices, e.pack, e.rate, &k.server.config.Trace}
	if err := s.send(e.ctx, k.server.streams.Peer(k.conn), opts...); err != nil {
		return err
	}
	k.did("got", e.open.Version, nil)
	return nil
}

func (e *errand) pack(buffer []byte, index int) ([]byte, error) {
	packed, err := e.open.Chunk(e.ctx, index)
	return append(buffer, packed...), err
}
