package desk

import (
	"bytes"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// The server's side of a put.

func (k *clerk) put(call *rpc.Call, a putArgs) (rpc.None, error) {
	return answer(k, askPut, call, func() (none rpc.None, err error) {
		return none, k.begin(a.Number, func(e *errand) error {
			u, err := k.saves()
			if err != nil {
				return err
			}
			e.blobs = k.inbox.expect(manifests, a.Number)
			e.put, err = u.Begin(e.ctx, versions.Request{Name: a.Name, Machine: a.Machine, Seen: a.Seen, Content: a.Content, Mode: a.Mode})
			return err
		})
	})
}

func (k *clerk) lacks(call *rpc.Call, n number) (rpc.None, error) {
	return answer(k, askLacks, call, func() (none rpc.None, err error) {
		return none, k.step(n, func(e *errand) bool { return e.put != nil && e.steps == 0 }, false, (*errand).learn)
	})
}

// learn takes the manifest, and tells which of its chunks are missing.
func (e *errand) learn() error {
	k := e.clerk
	b, err := k.takeManifest(e)
	if err != nil {
		return err
	}
	if e.lacks, err = e.put.Lacks(e.ctx, b); err != nil {
		return err
	}
	e.blobs = k.inbox.expect(chunks, e.number)
	bitmap := toBitmap(e.lacks)
	_, err = bitmaps.Start(k.server.streams.Peer(k.conn), bytes.NewReader(bitmap), int64(len(bitmap)), stream.Name(e.number.String()))
	return err
}

// takeManifest waits for room for the bytes of a manifest, as well.
func (k *clerk) takeManifest(e *errand) ([]byte, error) {
	in, err := take(e.ctx, k.conn, e.blobs)
	if err != nil {
		return nil, err
	}
	if err := k.server.manifests.Acquire(e.ctx, min(max(in.Size(), 0), maxManifest)); err != nil {
		return nil, context.Cause(e.ctx)
	}
	e.memory = min(max(in.Size(), 0), maxManifest)
	return readAll(e.ctx, in, maxManifest)
}

func (k *clerk) commit(call *rpc.Call, n number) (versions.Version, error) {
	return answer(k, askCommit, call, func() (v versions.Version, err error) {
		err = k.step(n, func(e *errand) bool { return e.put != nil && e.steps == 1 }, true, func(e *errand) error {
			if err := e.receive(); err != nil {
				return err
			}
			k.server.config.Trace.received()
			v, err = e.put.Commit(e.ctx)
			return err
		})
		k.did("put", v, err)
		return v, err
	})
}

// receive stores the chunks that were missing, some at once.
func (e *errand) receive() error {
	storing, ctx := errgroup.WithContext(e.ctx)
	storing.SetLimit(packers)
	err := collect(ctx, e.clerk.conn, e.blobs, slices.Clip(e.lacks), func(index int, packed []byte) error {
		storing.Go(func() error { return e.put.Chunk(ctx, index, packed) })
		return context.Cause(ctx)
	})
	if first := storing.Wait(); first != nil {
		return first
	}
	return err
}
