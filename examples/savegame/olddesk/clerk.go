package desk

import (
	"context"
	"errors"
	"os"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// list streams the entries.
func (k *clerk) list(call *rpc.Call, a listArgs) (rpc.None, error) {
	peer := k.server.streams.Peer(k.conn)
	return begin(k, AskList, call, func(reply func(rpc.None, error)) {
		saves, err := k.folder.List()
		if err != nil {
			reply(rpc.None{}, errors.New(k.explain("list", "", err)))
			return
		}
		reply(rpc.None{}, nil)
		list := make([]Entry, len(saves))
		for i, s := range saves {
			list[i] = Entry{s.Name, s.Size, s.Modified}
		}
		if err := entries.Send(k.server.ctx, peer, list, stream.Name(nameOf(a.Request))); err != nil {
			k.log.Debug("list not sent", "error", err)
		}
	})
}

func (k *clerk) remove(call *rpc.Call, a removeArgs) (rpc.None, error) {
	return begin(k, askRemove, call, func(reply func(rpc.None, error)) {
		if err := k.folder.Remove(a.Name); err != nil {
			reply(rpc.None{}, errors.New(k.explain("rm", a.Name, err)))
			return
		}
		k.log.Info("removed", "save", a.Name)
		reply(rpc.None{}, nil)
	})
}

// offer is a save that a client may fetch.
type offer struct {
	name   string
	file   *os.File
	size   int64
	digest stream.Digest
}

// get opens a save and says what it is.
func (k *clerk) get(call *rpc.Call, a getArgs) (offered, error) {
	return begin(k, askGet, call, func(reply func(offered, error)) {
		file, size, digest, err := k.folder.Open(k.ctx, a.Name)
		if err != nil {
			reply(offered{}, errors.New(k.explain("get", a.Name, err)))
			return
		}
		k.server.post(func() {
			reply(offered{size, digest}, k.offer(a.Request, &offer{a.Name, file, size, digest}))
		})
	})
}

// offer keeps the save open until it is fetched.
func (k *clerk) offer(request uint32, o *offer) error {
	_, taken := k.offers[request]
	if taken || len(k.offers) >= maxJobs || k.server.clerks[k.conn] != k {
		_ = o.file.Close()
		return errors.New("too many saves are on offer")
	}
	k.offers[request] = o
	return nil
}

// fetch streams what was offered.
func (k *clerk) fetch(call *rpc.Call, a fetchArgs) (rpc.None, error) {
	o := k.offers[a.Request]
	if o == nil {
		return rpc.None{}, errors.New("nothing was offered")
	}
	peer := k.server.streams.Peer(k.conn)
	none, err := begin(k, askFetch, call, func(reply func(rpc.None, error)) {
		defer o.file.Close()
		reply(rpc.None{}, nil)
		opts := append(a.Route.options(), stream.Key(o.digest.String()), stream.Hash(o.digest.Algorithm()), stream.Name(nameOf(a.Request)))
		switch err := k.send(peer, o, opts); {
		case err == nil:
			k.log.Info("got", "save", o.name, "bytes", o.size)
		case left(err):
			k.log.Info("get interrupted", "save", o.name, "cause", err)
		default:
			k.log.Warn("get failed", "save", o.name, "error", err)
		}
	})
	if err == nil {
		delete(k.offers, a.Request)
	}
	return none, err
}

// send streams a save, and cancels that when the server stops.
func (k *clerk) send(peer *stream.Peer, o *offer, opts []stream.Option) error {
	trace := &k.server.config.Trace
	trace.started()
	t, err := content.Start(peer, o.file, o.size, opts...)
	if err != nil {
		return err
	}
	trace.sending(t)
	select {
	case <-t.Done():
	case <-k.server.ctx.Done():
		t.Cancel(context.Cause(k.server.ctx))
	}
	return t.Err()
}

// explain logs an error and returns what the client is told of it: no paths.
func (k *clerk) explain(what, name string, err error) string {
	if left(err) || errors.Is(err, stream.ErrCanceled) {
		k.log.Info(what+" interrupted", "save", name, "cause", err)
	} else {
		k.log.Warn(what+" refused", "save", name, "error", err)
	}
	for _, known := range []error{vault.ErrName, vault.ErrNoSave, vault.ErrQuota, vault.ErrTooLarge, vault.ErrContent} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	return "the server can not " + verbs[what] + " it: " + vault.Reason(err).Error()
}

// left reports whether a request ended because its client left or the server stops: nobody refused it.
func left(err error) bool {
	for _, cause := range []error{errLeft, errStops, rpc.ErrClosed, stream.ErrClosed, context.Canceled} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

var verbs = map[string]string{"list": "list", "rm": "remove", "get": "read", "put": "store"}
