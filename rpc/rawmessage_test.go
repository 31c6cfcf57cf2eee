package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/raw"
)

func TestRawMessages(t *testing.T) {
	ids := []raw.ID{{1}, {2, 7: 3}}
	most := make([]raw.ID, maxRawIDs)
	for _, test := range []struct {
		payload []byte
		want    any
	}{
		{appendRaw(nil, idRawOpen, 1, ids...), rawOpen{1, ids}},
		{appendRaw(nil, idRawIDs, 1<<32-1, most...), rawIDs{1<<32 - 1, most}},
		{appendRaw(nil, idRawShut, 300), rawShut{300}},
		{appendRaw(nil, idRawWant, 300), rawWant{300}},
		{appendRaw(nil, idRawAsk, 300), rawAsk{300}},
		{[]byte{idRawPing}, rawPing{}},
	} {
		message, err := parseControl(test.payload)
		require.NoError(t, err)
		require.Equal(t, test.want, message)
		for i := 1; i < len(test.payload); i++ {
			_, err := parseControl(test.payload[:i])
			requireCode(t, ControlChannelMessagePayloadFail, err)
		}
		_, err = parseControl(append(test.payload, 0))
		requireCode(t, ControlChannelMessagePayloadFail, err)
	}
	for _, bad := range [][]byte{
		appendRaw(nil, idRawShut, 0),
		appendRaw(nil, idRawOpen, 1),
		appendRaw(nil, idRawOpen, 1, make([]raw.ID, maxRawIDs+1)...),
		{idRawShut, 0x80, 0x80, 0x80, 0x80, 0x10},
	} {
		_, err := parseControl(bad)
		requireCode(t, ControlChannelMessagePayloadFail, err)
	}
}
