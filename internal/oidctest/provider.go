// Package oidctest is an OpenID provider for tests: a real one over HTTP, with
// discovery, keys, codes that are bound to PKCE and used once, and RS256. What a
// test wants to be wrong it changes.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ClientID and Secret are of the one client that a Provider knows.
const (
	ClientID = "holdfast"
	Secret   = "a secret of the client"
)

// key is one for all providers: making one takes long.
var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// Provider is an OpenID provider. Its fields may be changed between requests.
type Provider struct {
	URL string // the issuer

	t  *testing.T
	mu sync.Mutex
	// Claims of whoever signs in next, beside the standard ones, which they override.
	claims map[string]any
	sign   func(claims map[string]any) string
	codes  map[string]code
	asked  int // token requests
	info   map[string]any
}

type code struct {
	challenge, redirect, nonce string
	claims                     map[string]any
}

// New starts a provider that lasts as long as the test.
func New(t *testing.T) *Provider {
	t.Helper()
	p := &Provider{t: t, codes: map[string]code{}, sign: RS256}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo",
			"id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key().Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer(w, http.StatusOK, p.info)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p.URL = srv.URL
	return p
}

// Next says who signs in from now on: claims over the standard ones; nil takes one away.
func (p *Provider) Next(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// Info is what userinfo answers from now on.
func (p *Provider) Info(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = claims
}

// Sign is how ID tokens are signed from now on.
func (p *Provider) Sign(sign func(claims map[string]any) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = sign
}

// Asked is how many token requests came.
func (p *Provider) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// authorize signs whoever comes in at once and sends them back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != ClientID || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" {
		http.Error(w, "not a code flow with PKCE and a nonce", http.StatusBadRequest)
		return
	}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "sub": "u-1", "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "nonce": q.Get("nonce"),
		"email": "maria@example.com", "email_verified": true, "groups": []string{"ops"}}
	p.mu.Lock()
	maps.Copy(claims, p.claims)
	for k, v := range claims {
		if v == nil {
			delete(claims, k)
		}
	}
	id := rand.Text()
	p.codes[id] = code{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), nonce: q.Get("nonce"), claims: claims}
	p.mu.Unlock()
	back.RawQuery = url.Values{"code": {id}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	id, secret, _ := r.BasicAuth()
	if id != ClientID || secret != url.QueryEscape(Secret) {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	c, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || c.redirect != r.PostFormValue("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "at", "token_type": "Bearer", "expires_in": 300, "id_token": p.sign(c.claims)})
}

// RS256 signs with the provider's key.
func RS256(claims map[string]any) string { return sign(jose.RS256, key(), claims) }

// HS256 signs with the client's secret, which the client knows as well.
func HS256(claims map[string]any) string {
	return sign(jose.HS256, []byte(Secret+"................................"), claims)
}

// Stranger signs with a key that is not the provider's.
func Stranger(claims map[string]any) string {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return sign(jose.RS256, k, claims)
}

// None signs nothing.
func None(claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + enc.EncodeToString(body) + "."
}

func sign(alg jose.SignatureAlgorithm, k any, claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: k, KeyID: "k1"}}, nil)
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	out, err := s.Sign(body)
	if err != nil {
		panic(err)
	}
	text, err := out.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone when this fails
}
