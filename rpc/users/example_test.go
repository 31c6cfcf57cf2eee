package users_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/quivernet/quiver/rpc/users"
)

func Example() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tokens.txt")

	// The server's owner gives ann a token, and she logs in with it.
	token := must(users.Add(path, "ann", "her desktop"))
	known := must(users.Open(path))
	desktop := must(known.Identify([]byte(token), time.Now())) // Authenticator calls it
	fmt.Println(users.UserOf(desktop))

	// She requests a code, which she types in on her laptop. The laptop makes its own token.
	code := must(known.Invite(desktop, time.Now()))
	made := rand.Text()
	laptop := must(known.Identify([]byte(users.ByCode(code, made, "laptop")), time.Now()))
	fmt.Println(users.UserOf(laptop), len(must(users.List(path))), "tokens")

	// The laptop is stolen.
	fmt.Println(must(users.Revoke(path, "ann", made)), "revoked")
	_, err = known.Identify([]byte(made), time.Now())
	fmt.Println(err, errors.Is(err, users.ErrToken))
	valid := must(known.Valid()) // Watch calls it
	fmt.Println(valid(desktop), valid(laptop))
	// Output:
	// ann
	// ann 2 tokens
	// 1 revoked
	// unknown token true
	// true false
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
