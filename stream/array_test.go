package stream

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// The shape of an array is in the header of its transfers, so it must be the same in every release.
func TestGoldenShapesOfArrays(t *testing.T) {
	type flat struct {
		A int8
		B uint16
		C int32
		D float64
		E [2]bool
	}
	require.Equal(t, uint64(0x8b38cc67d93b660a), NewArray[flat]("golden").shape)
	require.Equal(t, uint64(0x1c06d81634ed9a2e), NewArray[uint32]("golden").shape)
	require.Equal(t, uint64(0xe8e45559692f7434), NewArray[time.Time]("golden").shape)
	require.Equal(t, uint64(0x473287f8298dba71), NewArray[string]("golden", MaxElementBytes(9)).shape)
}

// upright is an element that says whether it is well formed, as an argument of an RPC may.
type upright struct{ Angle float64 }

func (u upright) Validate() error {
	if !(u.Angle >= 0 && u.Angle < 360) {
		return errors.New("it leans")
	}
	return nil
}

var uprights = NewArray[upright]("uprights")

func TestElementsAreValidatedWhenTheyLeave(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		uprights.Handle(n.client.streams, func(in *IncomingArray[upright]) { in.OnBatch(func([]upright) {}) })
		require.NoError(n, uprights.Send(n.ctx, n.server.peer, []upright{{0}, {359}}))
		err := uprights.Send(n.ctx, n.server.peer, []upright{{0}, {math.NaN()}})
		require.ErrorIs(n, err, ErrCanceled)
		require.ErrorContains(n, err, "element 1: invalid: it leans")
	})
}

func TestElementsAreValidatedWhenTheyArrive(t *testing.T) {
	var b []byte
	var err error
	for _, u := range []upright{{1}, {2}, {360}} {
		b, err = uprights.codec.Append(b, &u)
		require.NoError(t, err)
	}
	d, err := uprights.decode(b, 3)
	require.EqualError(t, err, "invalid: it leans")
	require.EqualValues(t, 2, d.units, "the index of the bad one")
	require.Equal(t, []upright{{1}, {2}}, d.batch)
}

// shelf is an element that takes much more memory than bytes, as the codec knows.
type shelf struct {
	Slots map[uint8][4]uint64 `quiver:"max=8"`
	Names []string            `quiver:"max=100"`
}

// What waits for the application is charged by what it takes, and no batch
// takes much more than batchBytes.
func TestDecodedElementsAreChargedByTheirMemory(t *testing.T) {
	shelves := NewArray[shelf]("shelves", MaxElementBytes(200))
	own, text := int(reflect.TypeFor[shelf]().Size()), int(reflect.TypeFor[string]().Size())
	align := reflect.TypeFor[uint64]().Align() // of a slot, whose key is one byte
	each := own + 48 + 8*(align+32+1) + 3*text // with a map that has room for eight, and three names
	one := bytes.Clone([]byte{0x92, 0x80, 0x93, 0xa0, 0xa0, 0xa0})
	d, err := shelves.decode(one, 1)
	require.NoError(t, err)
	require.Equal(t, int64(each), d.cost)

	b := bytes.Repeat(one, 5000)
	count := 0
	for len(b) > 0 {
		d, err := shelves.decode(b, 5000-count)
		require.NoError(t, err)
		require.Len(t, d.batch, int(d.units))
		require.Equal(t, d.units*int64(each), d.cost)
		require.Less(t, d.cost, int64(batchBytes+each))
		count, b = count+int(d.units), b[d.bytes:]
	}
	require.Equal(t, 5000, count)
}

func TestMaxElementBytesBelowEveryElement(t *testing.T) {
	require.PanicsWithValue(t, `stream: array "x": MaxElementBytes is 8, but every element has at least 10 bytes`,
		func() { NewArray[upright]("x", MaxElementBytes(8)) })
	NewArray[upright]("x", MaxElementBytes(10))
	require.Panics(t, func() { NewArray[upright]("x", MaxElementBytes(-1)) })
	require.Panics(t, func() { NewArray[rpc.None]("x") })
}
