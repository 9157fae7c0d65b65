package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"MemTotal: 100 kB\nMemAvailable:    2048 kB\n": 2 << 20,
		"MemTotal: 100 kB\n":                           0,
		"MemAvailable: much\n":                         0,
	} {
		file := filepath.Join(t.TempDir(), "meminfo")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := available(file); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if available("/nowhere") != 0 || room("/nowhere") != 0 || room(t.TempDir()) == 0 {
		t.Error("a file system that is not there has room, or one that is there has none")
	}
}
