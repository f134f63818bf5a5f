//go:build !linux

package main

import (
	"errors"
	"os"
)

func dontNeed(*os.File) error { return errors.New("cold: only Linux can drop a file from its cache") }
