package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// hostLimits reads what bounds requests to hosts, by name.
func (s ServiceSettings) hostLimits() (map[string]spec.Limits, error) {
	out := map[string]spec.Limits{}
	var errs []error
	each := func(flag string, list []string, set func(l *spec.Limits, value string) error) {
		for _, text := range list {
			host, value, ok := strings.Cut(strings.TrimSpace(text), "=")
			host = strings.ToLower(strings.TrimSuffix(host, "."))
			if !ok || host == "" || strings.ContainsAny(host, "/:@ ") {
				errs = append(errs, fmt.Errorf("--%s: %q is not HOST=VALUE, with a host name without port", flag, text))
				continue
			}
			l := out[host]
			if err := set(&l, value); err != nil {
				errs = append(errs, fmt.Errorf("--%s: host %s: %w", flag, host, err))
			}
			out[host] = l
		}
	}
	each("tools-host-rate", s.ToolsHostRate, func(l *spec.Limits, value string) (err error) {
		l.Rate, err = spec.ParseRate(value)
		return err
	})
	each("tools-host-concurrency", s.ToolsHostConcurrency, func(l *spec.Limits, value string) (err error) {
		l.Concurrency, err = strconv.ParseInt(value, 10, 64)
		if err != nil || l.Concurrency < 1 || l.Concurrency > spec.MaxConcurrency {
			return fmt.Errorf("%q is not a number from 1 to %d", value, spec.MaxConcurrency)
		}
		return nil
	})
	return out, errors.Join(errs...)
}
