package desk

import (
	"errors"
	"net"
	"syscall"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
)

// What a server says when it does not do what was asked.
var (
	ErrFull     = errors.New("no room at the server")
	ErrStopping = errors.New("the server stops") // and may be back soon
	ErrBusy     = errors.New("the server is busy")
	errOther    = errors.New("refused by the server")
)

// kinds are the codes of refusals, from 1 on.
var kinds = []error{
	versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash, versions.ErrDamaged, versions.ErrName, versions.ErrLacks,
	manifest.ErrManifest, manifest.ErrChunk, ErrFull, ErrStopping, ErrBusy, versions.ErrConflict, errOther,
}

// Refusal is why the server did not do what was asked. errors.Is finds its kind.
type Refusal struct {
	Kind error // of package versions, manifest or this one
	Text string
}

func (r *Refusal) Error() string { return r.Text }
func (r *Refusal) Unwrap() error { return r.Kind }

// kindOf says of which kind an error is. Of those that are nobody's business a client is told no more than that.
func kindOf(err error) (code uint32, kind error) {
	if errors.As(err, new(*versions.Full)) || errors.Is(err, syscall.ENOSPC) {
		err = ErrFull
	}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			return uint32(i + 1), kind
		}
	}
	return uint32(len(kinds)), errOther
}

// refuse makes of an error what a client is told: no paths.
func refuse(err error) error {
	code, kind := kindOf(err)
	text := err.Error()
	if kind == errOther {
		text = "the server could not do it; its log says why"
	}
	return &rpc.RequestError{Code: code, Text: text}
}

// refusalOf reads what refuse has made, nil where err is something else.
func refusalOf(err error) error {
	var e *rpc.RequestError
	if !errors.As(err, &e) || !e.Refused {
		return nil
	}
	kind := errOther
	if e.Code > 0 && int(e.Code) <= len(kinds) {
		kind = kinds[e.Code-1]
	}
	return &Refusal{kind, e.Text}
}

// Transient reports whether what failed may succeed a little later: the connection was lost, or the server stops, is full of
// connections, can not check tokens, or does not answer.
func Transient(err error) bool {
	if closed, is := errors.AsType[*rpc.CloseError](err); is {
		return closed.Temporary() || closed.Code == rpc.PreLoginFailure && closed.Reason == errTokens.Error()
	}
	if unknown, is := errors.AsType[*net.DNSError](err); is && unknown.IsNotFound {
		return false
	}
	late, is := errors.AsType[net.Error](err)
	return is && late.Timeout() || errors.Is(err, ErrStopping) || errors.Is(err, ErrBusy) || errors.Is(err, rpc.ErrBacklogFull) || errors.As(err, new(*net.OpError))
}
