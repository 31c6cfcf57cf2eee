package stream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

// settings are the configs of both ends of a connection.
type settings struct {
	rpc    rpc.Config
	stream Config
	size   int // of each transfer; 0 = 10,000
}

// numbers calls fn with each number of a config: integers, floats and times, with those of structs
// inside it.
func numbers(config reflect.Value, fn func(name string, field reflect.Value)) {
	for i := range config.NumField() {
		name, field := config.Type().Field(i).Name, config.Field(i)
		switch {
		case field.CanInt() || field.CanFloat():
			fn(name, field)
		case field.Kind() == reflect.Struct:
			numbers(field, func(inner string, field reflect.Value) { fn(name+"."+inner, field) })
		}
	}
}

// set sets a number, or the greatest that fits.
func set(field reflect.Value, value int64) {
	switch {
	case field.CanFloat():
		field.SetFloat(float64(value))
	case field.OverflowInt(value):
		field.SetInt(math.MaxInt8) // such as Hash
	default:
		field.SetInt(value)
	}
}

// TestSettings: with each setting at its extremes, and just above the one that it depends on, two
// ends transfer something, or an error names the setting.
func TestSettings(t *testing.T) {
	values := []int64{0, -1, 1, math.MaxInt}
	for _, pick := range []func(s *settings) reflect.Value{
		func(s *settings) reflect.Value { return reflect.ValueOf(&s.rpc).Elem() },
		func(s *settings) reflect.Value { return reflect.ValueOf(&s.stream).Elem() },
	} {
		var names []string
		numbers(pick(&settings{}), func(name string, _ reflect.Value) { names = append(names, name) })
		for i, name := range names {
			for _, value := range values {
				var s settings
				at := 0
				numbers(pick(&s), func(_ string, field reflect.Value) {
					if at == i {
						set(field, value)
					}
					at++
				})
				t.Run(fmt.Sprintf("%v.%s=%d", pick(&s).Type(), name, value), func(t *testing.T) { s.try(t, strings.Split(name, ".")...) })
			}
		}
	}
}

// TestSettingsThatContradict: each is one above the setting that limits it.
func TestSettingsThatContradict(t *testing.T) {
	for _, row := range []struct {
		names string // in the error; "" if they needn't agree
		settings
	}{
		{"MaxPending MaxMemory", settings{stream: Config{MaxMemory: 1 << 20, MaxPending: 1<<20 + 1}}},
		{"MaxPending MaxMemory", settings{stream: Config{MaxPending: 256<<20 + 1}}},
		{"Bunch.MaxBunch", settings{rpc: rpc.Config{Bunch: bunch.Config{MaxBunch: minMaxBunch - 1}}}},
		{"", settings{rpc: rpc.Config{Bunch: bunch.Config{MaxChannels: minChannels}}}},
		{"MaxMemory MaxTransfers", settings{stream: Config{MaxMemory: 1 << 20, MaxTransfers: 43}}},
		{"", settings{stream: Config{MaxTransfers: 5, MaxQueued: 4}}},
		{"", settings{stream: Config{MaxMemory: 1 << 20, MaxBytes: 1<<20 + 1}}},
		{"ReceiveLimit ReceiveBudget", settings{rpc: rpc.Config{ReceiveBudget: 1 << 20, ReceiveLimit: 1<<20 + 1}}},
		{"SendLimit SendBudget", settings{rpc: rpc.Config{SendBudget: 1 << 20, SendLimit: 1<<20 + 1}}},
		{"MaxConns ReceiveBudget", settings{rpc: rpc.Config{MaxConns: 1025, ReceiveBudget: 1024 * 256 << 10}}},
		{"HelloTimeout HandshakeTimeout", settings{rpc: rpc.Config{HandshakeTimeout: time.Second, HelloTimeout: time.Second + 1}}},
		{"KeepAlive IdleTimeout", settings{rpc: rpc.Config{IdleTimeout: time.Second, KeepAlive: time.Second + 1}}},
		{"", settings{rpc: rpc.Config{IdleTimeout: time.Second, Bunch: bunch.Config{IdleTimeout: time.Second + 1}}}},
		{"", settings{rpc: rpc.Config{MaxHandshakes: 4, RetryAbove: 5}}},
		{"", settings{rpc: rpc.Config{MaxHandshakes: 4, MaxHandshakesPerAddress: 5}}},
		{"", settings{rpc: rpc.Config{MaxConns: 4, MaxHandshakes: 5}}},
		{"", settings{rpc: rpc.Config{MaxConns: 4, MaxConnsPerAddress: 5}}},
		{"", settings{rpc: rpc.Config{MaxConns: 4, MaxConnsPerIdentity: 5}}},
		{"", settings{rpc: rpc.Config{WorldRate: 10_000, Rate: 10_001}}},
		{"", settings{rpc: rpc.Config{TickRate: 1000, DispatchTime: time.Second}}},
		{"", settings{rpc: rpc.Config{RequestTime: time.Minute, IdleTimeout: time.Second}}},
	} {
		t.Run(row.names, func(t *testing.T) {
			names := strings.Fields(row.names)
			require.Equal(t, len(names) > 0, row.try(t, names...) != nil)
		})
	}
}

// TestLeastMemoryOverQUIC: a transfer completes with the least MaxMemory, by each backend, over
// QUIC and sealed, alone and after others.
func TestLeastMemoryOverQUIC(t *testing.T) {
	for _, config := range []Config{{}, {MaxPending: minPending}, {MaxTransfers: 1}, {MaxTransfers: maxIncoming}} {
		config.MaxMemory = config.minMemory()
		for _, size := range []int{0, 1, 300_000, 3 << 20} {
			require.NoError(t, settings{stream: config, size: size}.try(t), "%d bytes", size)
		}
	}
}

// try transfers something from a client to a server with the same settings. It returns the error,
// which must name the settings, and the limit.
func (s settings) try(t *testing.T, names ...string) (err error) {
	for _, sealed := range []bool{false, true} {
		s.rpc.Sealed = sealed
		synctest.Test(t, func(t *testing.T) { err = s.transfer(t) })
		if err != nil {
			t.Log(err)
			for _, name := range names {
				require.ErrorContains(t, err, name)
			}
			require.Regexp(t, "the (limit|minimum|maximum) is |must (be|not)|needs [0-9]|is set: ", err)
			return err
		}
	}
	return nil
}

func (s settings) transfer(t *testing.T) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	path := netsim.Config{Delay: time.Millisecond}
	near, far := netsim.Pipe(path, path)
	var worlds [2]*rpc.World
	var streams [2]*Streams
	for i := range worlds {
		if worlds[i], err = rpc.NewWorld(s.rpc); err != nil {
			return err
		}
		if streams[i], err = Install(worlds[i], s.stream); err != nil {
			return err
		}
	}
	defer func() {
		for _, w := range worlds {
			_ = w.Close(ctx, 0, "over")
		}
		time.Sleep(time.Minute)
		_, _ = near.Close(), far.Close()
	}()
	certificate, err := cert.Development("localhost")
	require.NoError(t, err)
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	require.NoError(t, err)
	pin.Time = func() time.Time { return certificate.Leaf.NotBefore.Add(time.Hour) }
	listener, err := rpc.ListenPacket(far, &tls.Config{Certificates: []tls.Certificate{certificate}}, worlds[1])
	if err != nil {
		return err
	}
	defer listener.Close()
	got := collect(streams[1])
	for _, w := range worlds {
		go func() { _ = w.Run(ctx) }()
	}
	conn, err := rpc.DialPacket(ctx, near, far.LocalAddr(), pin, worlds[0])
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	for _, via := range []Backend{Window{}, Slices{}} {
		data := content(cmp.Or(s.size, 10_000))
		if err := save.Send(ctx, streams[0].Peer(conn), bytes.NewReader(data), int64(len(data)), Via(via)); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if one := <-got; !bytes.Equal(data, one.data) {
			return errors.New("other content arrived")
		}
	}
	return nil
}
