//go:build !linux

package pgtest

import (
	"syscall"
	"testing"
)

func asOwnerOf(testing.TB, string) *syscall.SysProcAttr { return nil }
