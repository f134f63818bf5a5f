//go:build !unix

package ha

import "errors"

const rawReads = false

func readSocket(uintptr, []byte) (n int, again bool, err error) {
	return 0, false, errors.ErrUnsupported
}
