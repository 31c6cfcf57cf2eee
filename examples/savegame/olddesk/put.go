package desk

import (
	"errors"
	"io"
	"sync"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// putJob is a save on its way in.
type putJob struct {
	clerk *clerk
	args  putArgs
	key   string
	reply func(stored, error)
	ended chan struct{} // closed by end

	mu       sync.Mutex
	release  func() // of the room that is reserved; nil before
	expected bool   // the client was told to send
	in       *stream.IncomingBlob
	cause    error // why it was canceled
}

// put asks for the content of a save, unless it is here.
func (k *clerk) put(call *rpc.Call, a putArgs) (stored, error) {
	if a.Size < 0 || k.puts[a.Request] != nil {
		return stored{}, errors.New("the request makes no sense")
	}
	return begin(k, askPut, call, func(reply func(stored, error)) {
		j := &putJob{clerk: k, args: a, key: a.Digest.String(), reply: reply, ended: make(chan struct{})}
		j.admit()
	})
}

func (j *putJob) turn() turn { return turn{j.clerk.conn.Identity(), j.args.Digest} }

// admit waits for the turn of the save and for room, and says whether its content is needed.
func (j *putJob) admit() {
	k, a := j.clerk, j.args
	if err := k.server.turns.take(k.ctx, j); err != nil {
		j.refuse(err)
		return
	}
	had, err := j.prepare()
	switch {
	case err != nil:
		j.end()
		j.refuse(err)
	case had:
		j.end()
		k.log.Info("put", "save", a.Name, "bytes", a.Size, "received", 0)
		j.reply(stored{Had: true}, nil)
	default:
		k.server.post(j.expect)
	}
}

// prepare finds the content here, or room for it.
func (j *putJob) prepare() (had bool, err error) {
	k, a := j.clerk, j.args
	if had, err := k.folder.Has(k.ctx, a.Name, a.Digest, a.Size); had || err != nil {
		return had, err
	}
	release, err := k.folder.Reserve(k.ctx, a.Name, j.key, a.Size)
	if err != nil {
		return false, err
	}
	j.mu.Lock()
	j.release = release
	j.mu.Unlock()
	return k.folder.CopyOf(k.ctx, a.Digest, a.Size, a.Name)
}

func (j *putJob) refuse(err error) {
	j.reply(stored{}, errors.New(j.clerk.explain("put", j.args.Name, err)))
}

// expect lets the client send. It belongs to the world's goroutine.
func (j *putJob) expect() {
	k := j.clerk
	if k.server.clerks[k.conn] != k || k.puts[j.args.Request] != nil || len(k.puts) >= maxJobs {
		j.end()
		j.reply(stored{}, errors.New("too many saves are on their way"))
		return
	}
	k.puts[j.args.Request] = j
	j.mu.Lock()
	j.expected = true
	j.mu.Unlock()
	if err := callSend.Call(k.actor, sendArgs{j.args.Request}); err != nil { // the client is gone by now
		k.log.Debug("put not begun", "save", j.args.Name, "error", err)
	}
}

// moved is false when the client was told to send and nothing came from it since this was at.
func (j *putJob) moved(since uint64) (at uint64, moved bool) {
	at = j.clerk.conn.Stats().PacketsIn
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.in != nil {
		at += uint64(j.in.Progress().Sent) // slices are no packets of those
	}
	return at, !j.expected || at != since
}

// take claims the stream of the content, and refuses one that is not what was announced.
func (j *putJob) take(in *stream.IncomingBlob) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.in != nil || j.cause != nil || in.Size() != j.args.Size || in.Key() != j.key {
		return false
	}
	j.in = in
	return true
}

// receive waits for the content and makes a save of it.
func (j *putJob) receive(in *stream.IncomingBlob) {
	k, a := j.clerk, j.args
	err := j.store(in)
	j.end()
	if err != nil {
		j.refuse(err)
		return
	}
	k.log.Info("put", "save", a.Name, "bytes", a.Size, "received", k.conn.Stats().BytesIn)
	j.reply(stored{}, nil)
}

// store reads the stream to its end, by when the vault's store holds the verified content.
func (j *putJob) store(in *stream.IncomingBlob) error {
	s, identity := j.clerk.server, j.clerk.conn.Identity()
	if _, err := io.Copy(io.Discard, in); err != nil {
		vault.DropIfFull(s.parts, identity, j.key, err)
		return err
	}
	s.config.Trace.received()
	return j.clerk.folder.Adopt(identity, j.key, j.args.Name)
}

// cancel ends the job; what has arrived stays in the store.
func (j *putJob) cancel(cause error) {
	j.mu.Lock()
	in, first := j.in, j.cause == nil
	if first {
		j.cause = cause
	}
	j.mu.Unlock()
	switch {
	case in != nil:
		in.Cancel(cause)
	case first:
		j.end()
		j.refuse(cause)
	}
}

// end gives back the room that is reserved, and the turn.
func (j *putJob) end() {
	k := j.clerk
	j.mu.Lock()
	if j.release != nil {
		j.release()
	}
	j.mu.Unlock()
	k.server.turns.give(j)
	close(j.ended)
	k.server.post(func() {
		if k.puts[j.args.Request] == j {
			delete(k.puts, j.args.Request)
		}
	})
}
