package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

var ports struct {
	sync.Mutex
	given map[int]bool
}

// FreeAddrs are n addresses of loopback, "127.0.0.1:PORT", at which nobody listens now;
// none is given twice by this process. They lie below the range from which systems give
// ports to outgoing connections, so that a server which is started again finds its
// port as it left it.
func FreeAddrs(n int) (addrs []string, err error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range n + 1000 {
		if len(addrs) == n {
			return addrs, nil
		}
		port := 20_000 + rand.IntN(12_000)
		if ports.given[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		ports.given[port] = true
		addrs = append(addrs, addr)
	}
	return nil, errors.New("no free port of loopback between 20000 and 31999")
}
