package lab

import (
	"slices"
	"testing"
)

func TestFreeAddrs_NoneTwice(t *testing.T) {
	var all []string
	for range 20 {
		addrs, err := FreeAddrs(20)
		if err != nil || len(addrs) != 20 {
			t.Fatal(addrs, err)
		}
		all = append(all, addrs...)
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 400 {
		t.Errorf("%d addresses of 400 are different", n)
	}
}
