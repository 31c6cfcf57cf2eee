package tmpcount

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer/quiver"
	"github.com/quivernet/quiver/stream"
)

func TestX(t *testing.T) {
	n, err := emulate.New(job.Job{Clock: job.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	p, err := quiver.Open(context.Background(), n, stream.Window{})
	if err != nil {
		t.Fatal(err)
	}
	arg := make([]byte, 64)
	for range 200 {
		p.Call(context.Background(), arg)
	}
	a := p.Conn().Stats()
	at := time.Now()
	for range 5000 {
		p.Call(context.Background(), arg)
	}
	fmt.Println(time.Since(at) / 5000)
	b := p.Conn().Stats()
	fmt.Printf("%+v\n%+v\n", a, b)
}
