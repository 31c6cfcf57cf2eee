// Savegame hands save games up to a server and down again, over reliable bunches on QUIC datagrams. Transfers that were
// interrupted go on where they stopped, what is there already is not sent again, and a save is there whole or not at
// all.
//
// The demo is an embedded server, an upload and a download, over an emulated link if one is asked for:
//
//	savegame
//	savegame demo -size 16MiB -rtt 50ms -loss 1% -rate 10mbit
//
// A server keeps its certificate, its tokens and the saves in a folder. It prints the fingerprint of the certificate,
// which clients pin; each token has saves of its own.
//
//	savegame serve -addr :7777 -dir saves
//	export QUIVER_TOKEN=… QUIVER_FINGERPRINT=…
//	savegame put world.sav
//	savegame ls
//	savegame get world.sav copy.sav
//	savegame rm world.sav
//	tar c world | savegame put - world.tar
//	savegame get world.tar - | tar x
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	quietBuffers()
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // the second one kills
		cancel(errInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// quietBuffers keeps quic-go from writing to standard error about the sizes of kernel buffers, unless the user decided
// about that.
func quietBuffers() {
	const variable = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if os.Getenv(variable) == "" {
		_ = os.Setenv(variable, "true")
	}
}

// exitInterrupted is what shells return for SIGINT.
const exitInterrupted = 130

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := newApp(stdin, stdout, stderr).Run(ctx, append([]string{"savegame"}, args...))
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "savegame: %s\n", oneLine(err))
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return 1
}
