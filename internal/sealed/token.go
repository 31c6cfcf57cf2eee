package sealed

import "sync/atomic"

// token is held by who sends, from build to write, so that packets leave in the order of their numbers. Nobody waits for it: a
// caller that does not get it leaves its packets to the carrier's goroutine, which is woken when it does not get it itself.
type token struct{ state atomic.Int32 }

const (
	tokenFree   int32 = iota
	tokenHeld         // by the goroutine, or by a caller
	tokenWanted       // by the goroutine, of the caller who holds it
	tokenLeft         // nobody holds it: there are packets that the goroutine is to send first
)

// try gets a caller the token.
func (t *token) try() bool { return t.state.CompareAndSwap(tokenFree, tokenHeld) }

// take gets the goroutine the token, or has its holder told that it is wanted.
func (t *token) take() bool {
	for {
		switch state := t.state.Load(); state {
		case tokenWanted:
			return false
		case tokenHeld:
			if t.state.CompareAndSwap(tokenHeld, tokenWanted) {
				return false
			}
		default:
			if t.state.CompareAndSwap(state, tokenHeld) {
				return true
			}
		}
	}
}

// release gives it back, and reports whether the goroutine is to be woken.
func (t *token) release() (wanted bool) { return t.state.Swap(tokenFree) == tokenWanted }

// leave gives it to the goroutine, which is to be woken.
func (t *token) leave() { t.state.Store(tokenLeft) }
