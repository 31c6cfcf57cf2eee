package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

const (
	// maxErrands is how many puts and gets of one client go on at once.
	maxErrands = 8
	// maxJobs is how many requests of one client go on at once.
	maxJobs = 16
)

// clerk serves one client.
type clerk struct {
	server *Server
	conn   *rpc.Conn
	user   string // empty: a guest
	log    *slog.Logger
	ctx    context.Context // of the client's jobs
	gone   context.CancelCauseFunc
	inbox  inbox
	active atomic.Int32 // jobs

	mu      sync.Mutex
	errands map[number]*errand
}

func (s *Server) newClerk(a *rpc.Actor) *clerk {
	k := &clerk{server: s, conn: a.Conn(), errands: make(map[number]*errand)}
	if identity := k.conn.Identity(); identity != "" {
		k.user = users.UserOf(identity)
	}
	k.log = s.log.With("conn", k.conn, "user", k.user)
	k.ctx, k.gone = context.WithCancelCause(s.ctx)
	s.clerks[k.conn] = k
	return k
}

var errLeft = errors.New("the client left")

// leave ends what the client leaves behind.
func (k *clerk) leave() {
	k.gone(errLeft)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.errands {
		k.giveUp(e, errLeft)
	}
}

// drop ends a put or get that the client gave up.
func (k *clerk) drop(_ *rpc.Call, n number) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.errands[n]; e != nil {
		k.giveUp(e, errForgotten)
	}
}

// answer does a job, which may wait for a store, for a request that a user may ask, and answers with what it returns.
func answer[A, R any](k *clerk, r *rpc.Request[A, R], call *rpc.Call, job func() (R, error)) (zero R, err error) {
	if k.user == "" {
		return zero, refuse(ErrGuest)
	}
	if n := k.active.Add(1); n > maxJobs {
		k.active.Add(-1)
		return zero, fmt.Errorf("%d requests go on already", maxJobs)
	}
	reply := r.Later(call)
	k.server.jobs.Go(func() {
		result, err := job()
		k.active.Add(-1)
		if err != nil {
			err = k.refuse(r.String(), err)
		}
		reply(result, err)
	})
	return zero, nil
}

// refuse logs why a request is refused, and returns what the client is told.
func (k *clerk) refuse(request string, err error) error {
	_, kind := kindOf(err)
	switch {
	case errors.Is(err, errLeft), errors.Is(err, errForgotten), errors.Is(err, ErrStopping):
		k.log.Info("interrupted", "request", request, "cause", err)
	case kind == errOther:
		k.log.Error("failed", "request", request, "error", err)
	default:
		k.log.Warn("refused", "request", request, "error", err)
	}
	return refuse(err)
}

func (k *clerk) saves() (*versions.User, error) {
	return k.server.config.Versions.User(k.ctx, k.user)
}

// list streams versions.
func (k *clerk) list(call *rpc.Call, a listArgs) (rpc.None, error) {
	return answer(k, askList, call, func() (none rpc.None, err error) {
		u, err := k.saves()
		var list []versions.Version
		if err == nil && a.Name == "" {
			list, err = u.List(k.ctx)
		} else if err == nil {
			list, err = u.History(k.ctx, a.Name)
		}
		if err == nil {
			_, err = records.Start(k.server.streams.Peer(k.conn), list, stream.Name(a.Number.String()))
		}
		return none, err
	})
}

func (k *clerk) restore(call *rpc.Call, a editArgs) (versions.Version, error) {
	return answer(k, askRestore, call, func() (v versions.Version, err error) {
		u, err := k.saves()
		if err == nil {
			v, err = u.Restore(k.ctx, a.Name, a.Version, a.Machine)
		}
		k.did("restored", v, err)
		return v, err
	})
}

func (k *clerk) remove(call *rpc.Call, a editArgs) (versions.Version, error) {
	return answer(k, askRemove, call, func() (v versions.Version, err error) {
		u, err := k.saves()
		if err == nil {
			v, err = u.Remove(k.ctx, a.Name, a.Machine)
		}
		k.did("removed", v, err)
		return v, err
	})
}

func (k *clerk) erase(call *rpc.Call, a editArgs) (rpc.None, error) {
	return answer(k, askErase, call, func() (none rpc.None, err error) {
		u, err := k.saves()
		if err == nil {
			err = u.Erase(k.ctx, a.Name, a.Machine)
		}
		k.did("erased", versions.Version{Name: a.Name, Machine: a.Machine}, err)
		return none, err
	})
}

// did logs what was done to a save.
func (k *clerk) did(what string, v versions.Version, err error) {
	if err == nil {
		k.log.Info(what, "save", v.Name, "version", v.Number, "bytes", v.Size, "machine", v.Machine)
	}
}

func (k *clerk) invite(call *rpc.Call, _ rpc.None) (invitation, error) {
	return answer(k, askInvite, call, func() (invitation, error) {
		code, err := k.server.config.Codes.New(k.user, time.Now())
		return invitation{code}, err
	})
}

// redeem makes a guest's code a token; for once it is no user who asks.
func (k *clerk) redeem(call *rpc.Call, a invitation) (login, error) {
	reply := askRedeem.Later(call)
	k.server.jobs.Go(func() {
		var l login
		var err error
		source, _, _ := net.SplitHostPort(k.conn.RemoteAddr().String())
		l.User, l.Token, err = k.server.config.Codes.Redeem(a.Code, source, time.Now())
		if err != nil {
			err = k.refuse("Redeem", err)
		} else {
			k.log.Info("login", "user", l.User)
		}
		reply(l, err)
	})
	return login{}, nil
}
