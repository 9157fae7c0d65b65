package pg

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// WorkerName returns a name for this process start that no other has:
// "<service>-<host>-<pid>-<6 hex digits>". It may stand as one subject token.
// Each call returns a new name; a process makes one and keeps it.
func WorkerName(service string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	var b [3]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("read random bytes: %v", err))
	}
	return fmt.Sprintf("%s-%s-%d-%s", tokenSafe(service, 32), tokenSafe(host, 48), os.Getpid(), hex.EncodeToString(b[:]))
}

func tokenSafe(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), most)]
}
