package users

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRandomLogins plays users, thieves and owners at random: exactly those
// clients are let in that a simple model lets in.
func TestRandomLogins(t *testing.T) {
	type known struct {
		identity string
		ends     time.Time
		token    string
		void     bool
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		path := fileOf(t, "ann:"+alpha+"\nbob:"+beta+"\n")
		u, err := Open(path)
		require.NoError(t, err)
		now := time.Now()
		live := map[string]string{alpha: "ann", beta: "bob"} // token -> user
		codes := map[string]*known{}
		var order []string
		tokens := []string{alpha, beta}
		for i := range 5 {
			tokens = append(tokens, fmt.Sprintf("machine-%d-0123456789", i))
		}
		idOf := func(token, user string) string { return user + "/" + mac(token) }
		for step := range 120 {
			now = now.Add(time.Duration(r.IntN(120)) * time.Second)
			where := fmt.Sprintf("seed %d step %d", seed, step)
			switch r.IntN(5) {
			case 0: // invite
				identity := []string{"ann", "bob"}[r.IntN(2)]
				if r.IntN(3) > 0 {
					tok := tokens[r.IntN(len(tokens))]
					user, ok := live[tok]
					if !ok {
						break
					}
					identity = idOf(tok, user)
				}
				code, err := u.Invite(identity, now)
				require.NoError(t, err, where)
				for _, c := range codes {
					if c.identity == identity && c.token == "" {
						c.void = true
					}
				}
				codes[code] = &known{identity: identity, ends: now.Add(codeLife)}
				order = append(order, code)
			case 1: // revoke
				tok := tokens[r.IntN(len(tokens))]
				if user, ok := live[tok]; ok {
					n, err := Revoke(path, user, tok)
					require.NoError(t, err)
					require.Equal(t, 1, n)
					delete(live, tok)
				}
			case 2:
				tok := tokens[r.IntN(len(tokens))]
				id, err := u.Identify([]byte(tok), now)
				if user, ok := live[tok]; ok {
					require.NoError(t, err)
					require.Equal(t, idOf(tok, user), id)
				} else {
					require.ErrorIs(t, err, ErrToken, where)
				}
			default:
				if len(order) == 0 {
					break
				}
				code, tok := order[len(order)-1-r.IntN(min(len(order), 5))], tokens[r.IntN(len(tokens))]
				c := codes[code]
				id, err := u.Identify([]byte(ByCode(code, tok, "m")), now)
				user := UserOf(c.identity)
				_, isTok := live[tok]
				inviter := c.identity == user
				for l, who := range live {
					inviter = inviter || idOf(l, who) == c.identity
				}
				good := !c.void && now.Before(c.ends)
				switch {
				case good && c.token == tok && isTok:
					require.NoError(t, err, where)
					require.Equal(t, idOf(tok, live[tok]), id, where)
				case good && c.token == "" && inviter && !isTok:
					require.NoError(t, err, where)
					require.Equal(t, idOf(tok, user), id, where)
					c.token, live[tok] = tok, user
				default:
					require.Error(t, err, where)
					require.Empty(t, id)
				}
			}
			require.LessOrEqual(t, len(u.codes), len(order))
		}
	}
}
