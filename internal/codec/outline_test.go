package codec

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each level names the next one twice.
type (
	twice1[T any] struct{ A, B *T }
	twice4[T any] = twice1[twice1[twice1[twice1[T]]]]
)

func TestShapeOfOneArgumentIsBounded(t *testing.T) {
	_, err := Of(reflect.TypeFor[twice4[twice4[int]]]())
	require.NoError(t, err)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[twice4[twice4[twice4[int]]]](),
		reflect.TypeFor[twice4[twice4[twice4[twice4[twice4[twice4[twice4[twice4[twice4[twice4[int]]]]]]]]]]](),
	} {
		_, err = Of(typ)
		require.ErrorContains(t, err, fmt.Sprintf("has more than %d fields", maxLines))
	}
}
