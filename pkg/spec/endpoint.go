package spec

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// endpoints are what each provider's adapter asks below its base URL. A base URL
// that ends in one would be asked for it twice.
var endpoints = map[string]string{
	ProviderAnthropic:       "/v1/messages",
	ProviderOpenAIChat:      "/chat/completions",
	ProviderOpenAIResponses: "/responses",
}

// Endpoint is the base URL that text means for m's provider; it ends in "/". A
// slash at its end means nothing. Anthropic's is the address above /v1, with or
// without it; OpenAI's holds the version, and is /v1 when text has no path. What
// else stands in the path is kept: gateways have prefixes of their own.
func (m *Model) Endpoint(text string) (string, error) {
	if _, err := checkURL(text); err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil { // its text may hold a value of the environment
		return "", errors.New("URL is not valid")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#") {
		return "", errors.New("URL must not hold a query or a fragment: what is asked is put behind its path")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if strings.Contains(path, "//") {
		return "", errors.New("URL path must not hold an empty segment")
	}
	if end, ok := endpoints[m.Provider]; ok && strings.HasSuffix(path, end) {
		return "", fmt.Errorf("URL must not end in %s: that is added to it", end)
	}
	switch {
	case m.Provider == ProviderAnthropic:
		path = strings.TrimSuffix(path, "/v1")
	case path == "":
		path = "/v1"
	}
	return u.Scheme + "://" + u.Host + path + "/", nil
}
