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

	mu      sync.Mutex
	release func() // of the room that is reserved; nil before and after
	in      *stream.IncomingBlob
	cause   error // why it was canceled
}

// put asks for the content of a save, unless it is here.
func (k *clerk) put(_ *rpc.Call, a putArgs) {
	if a.Size < 0 || k.puts[a.Request] != nil {
		k.say(answer{Request: a.Request, Reason: "the request makes no sense"})
		return
	}
	j := &putJob{clerk: k, args: a, key: keyOf(a.Digest)}
	k.begin(a.Request, j.admit)
}

// admit finds room for the save and says whether its content is needed.
func (j *putJob) admit() {
	k, a := j.clerk, j.args
	release, err := k.folder.Reserve(a.Name, a.Size)
	if err != nil {
		j.refuse(err)
		return
	}
	had, err := k.folder.CopyOf(a.Digest, a.Size, a.Name)
	switch {
	case err != nil:
		release()
		j.refuse(err)
	case had:
		release()
		k.log.Info("put", "save", a.Name, "bytes", a.Size, "received", 0)
		k.reply(answer{Request: a.Request, Verdict: stored, Size: a.Size, Digest: a.Digest})
	default:
		j.release = release
		k.server.post(j.expect)
	}
}

func (j *putJob) refuse(err error) {
	j.clerk.reply(answer{Request: j.args.Request, Reason: j.clerk.explain("put", j.args.Name, err)})
}

// expect lets the client send. A transfer of the same content that an earlier connection of this client left behind
// gives way. It belongs to the world's goroutine.
func (j *putJob) expect() {
	k := j.clerk
	if k.server.clerks[k.conn] != k || k.puts[j.args.Request] != nil || len(k.puts) >= maxJobs {
		j.free()
		k.say(answer{Request: j.args.Request, Reason: "too many saves are on their way"})
		return
	}
	for conn, other := range k.server.clerks {
		if conn == k.conn || conn.Identity() != k.conn.Identity() {
			continue
		}
		for _, older := range other.puts {
			if older.args.Digest == j.args.Digest {
				older.cancel(errors.New("the same content comes over a newer connection"))
			}
		}
	}
	k.puts[j.args.Request] = j
	k.say(answer{Request: j.args.Request, Verdict: send})
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
	j.free()
	k.server.post(func() { delete(k.puts, a.Request) })
	if err != nil {
		j.refuse(err)
		return
	}
	k.log.Info("put", "save", a.Name, "bytes", a.Size, "received", k.conn.Stats().BytesIn)
	k.reply(answer{Request: a.Request, Verdict: stored, Size: a.Size, Digest: a.Digest})
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
	in := j.in
	if j.cause == nil {
		j.cause = cause
	}
	j.mu.Unlock()
	if in != nil {
		in.Cancel(cause)
		return
	}
	j.free()
}

// free gives back the room that is reserved.
func (j *putJob) free() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.release != nil {
		j.release()
		j.release = nil
	}
}
