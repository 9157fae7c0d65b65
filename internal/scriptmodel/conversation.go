package scriptmodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// conversation is what the server remembers of one key.
type conversation struct {
	tools   string // digest of the tool list of the first request
	system  string
	history []string           // digest of each message of the longest history so far
	given   map[int][][]string // turn -> answers that were given there, as block digests
	paused  map[string]bool    // answers that the provider paused, by message digest
}

// check compares a request with the conversation's earlier ones and, when it
// keeps to them, remembers it. The first request may take over what elsewhere says
// was given in another conversation: it goes on from there.
func (c *conversation) check(r Request, elsewhere func(turn int, m Message) (given, paused bool)) error {
	tools, system := digest(r.tools), digest(r.system)
	first := c.history == nil
	if first {
		c.tools, c.system = tools, system
	}
	switch {
	case tools != c.tools:
		return fmt.Errorf("tools: the tool list differs from the first request of this conversation")
	case system != c.system:
		return fmt.Errorf("system: the system prompt differs from the first request of this conversation")
	}
	turn := 0
	var history []string
	for i, m := range r.Messages {
		if first && m.Role == "assistant" && !c.wasGiven(turn, m) {
			if given, paused := elsewhere(turn, m); given {
				stop := ""
				if paused {
					stop = "pause_turn"
				}
				c.gave(turn, m.Blocks, stop)
			}
		}
		if last := i == len(r.Messages)-1; m.Role == "assistant" && (last || r.Messages[i+1].Role == "assistant") && !c.paused[messageDigest(m)] {
			if last {
				return fmt.Errorf("messages.%d: the conversation must end with a user message", i)
			}
			return fmt.Errorf("messages.%d: role is %q, but roles must alternate and begin with user", i+1, m.Role)
		}
		if m.Role == "assistant" {
			if !c.wasGiven(turn, m) {
				return fmt.Errorf("messages.%d: this answer was never given in this conversation", i)
			}
			turn++
		}
		d := messageDigest(m)
		if i < len(c.history) && c.history[i] != d {
			return fmt.Errorf("messages.%d: differs from what an earlier request of this conversation said there", i)
		}
		history = append(history, d)
	}
	if len(history) > len(c.history) {
		c.history = history
	}
	return nil
}

func (c *conversation) wasGiven(turn int, m Message) bool {
	got := blockDigests(m.Blocks)
	return slices.ContainsFunc(c.given[turn], func(given []string) bool { return slices.Equal(given, got) })
}

// gave remembers an answer before it is sent: the caller may have read it even
// when the connection broke.
func (c *conversation) gave(turn int, blocks []Block, stopReason string) {
	m := Message{Role: "assistant", Blocks: blocks}
	if stopReason == "pause_turn" {
		if c.paused == nil {
			c.paused = map[string]bool{}
		}
		c.paused[messageDigest(m)] = true
	}
	if !c.wasGiven(turn, m) {
		if c.given == nil {
			c.given = map[int][][]string{}
		}
		c.given[turn] = append(c.given[turn], blockDigests(blocks))
	}
}

// decodeBlocks reads blocks of the server's own.
func decodeBlocks(raw []json.RawMessage) []Block {
	blocks := make([]Block, len(raw))
	for i, b := range raw {
		if err := json.Unmarshal(b, &blocks[i]); err != nil {
			panic(fmt.Sprintf("scriptmodel: own block %s: %v", b, err))
		}
		blocks[i].Raw = b
	}
	return blocks
}

func blockDigests(blocks []Block) []string {
	out := []string{}
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			continue // given, and not to be sent back
		}
		out = append(out, digest(meaning(b)))
	}
	return out
}

// messageDigest names a message's meaning.
func messageDigest(m Message) string {
	return m.Role + " " + fmt.Sprint(blockDigests(m.Blocks))
}

// meaning is what a block says, without members that may come and go: a
// cache_control marker moves between requests, and a client that puts a stream
// together adds empty ones.
func meaning(b Block) json.RawMessage {
	switch b.Type {
	case "text":
		return encode([]any{b.Type, b.Text})
	case "tool_use":
		input := b.Input
		if in := bytes.TrimSpace(input); len(in) == 0 || in[0] != '{' || !json.Valid(in) {
			input = json.RawMessage("{}") // given, and only taken back as an object
		}
		return encode([]any{b.Type, b.ID, b.Name, input})
	case "thinking":
		return encode([]any{b.Type, b.Thinking, b.Signature})
	case "tool_result":
		content := b.Content
		if len(content) == 0 {
			content = json.RawMessage("null")
		}
		return encode([]any{b.Type, b.ToolUseID, b.IsError, content})
	}
	return b.Raw
}

// digest hashes the canonical form of a JSON value; what has none is hashed as
// it is.
func digest(raw json.RawMessage) string {
	b := []byte(raw)
	if c, err := events.Canonical(raw); err == nil {
		b = c
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
