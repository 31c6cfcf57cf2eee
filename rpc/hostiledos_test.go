package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/rpc/dos"
)

// TestWhatClientsBeginCounts: cancels, questions, messages of the framework,
// and answers without a question count as a flood like any other.
func TestWhatClientsBeginCounts(t *testing.T) {
	for name, payload := range map[string]func(i uint64) []byte{
		"questions": func(i uint64) []byte { return questionBytes(t, clerkAsk, i, 1) },
		"cancels":   func(i uint64) []byte { return ask.AppendCancel(clerkAsk.question.appendID(nil), i) },
		"answers": func(i uint64) []byte {
			return answerBytes(clerkAdmit, append(ask.AppendAnswer(nil, i, ask.Answered), 0xc1))
		},
		"missed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			withClerk(t, Config{DoS: dos.Default()}, func(n *network, _, there *Actor) {
				c, e := n.conns[0], n.ends[0]
				began, sent := time.Now(), uint64(0)
				for c.Err() == nil && time.Since(began) < 12*time.Second {
					number, b := uint64(0), control.AppendMissed(nil)
					if payload != nil {
						number = there.openings[0].channel
					}
					for range 100 {
						if payload != nil {
							b = payload(sent + 1)
						}
						e.link.Lock()
						out, slots := e.machine.Reliable(number)
						if out < slots/2 && e.machine.Send(number, bunch.Reliable, b) == nil {
							sent++
						}
						e.link.Unlock()
					}
					n.tick(1)
				}
				t.Logf("%d in %v", sent, time.Since(began))
				require.Equal(t, RPCDoS, c.closeError().Code)
				require.Less(t, time.Since(began), 10*time.Second)
			})
		})
	}
}
