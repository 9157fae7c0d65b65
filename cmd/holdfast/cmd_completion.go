package main

import (
	"os"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

// CompletionCmd is "completion": what a shell reads to complete command lines.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong.HelpProvider.
func (CompletionCmd) Help() string {
	return `Commands, flags and the words that a flag takes are completed; no server is asked.

  bash   echo 'source <(holdfast completion bash)' >> ~/.bashrc
  zsh    echo 'source <(holdfast completion zsh)' >> ~/.zshrc
  fish   holdfast completion fish > ~/.config/fish/completions/holdfast.fish

holdfast must be found in PATH.`
}

// Run prints the shell's code.
func (c *CompletionCmd) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

// completes answers a shell that asks how its line may go on, and says whether it did.
func completes(parser *kong.Kong) (done bool) {
	if os.Getenv("COMP_LINE") == "" { // set by the shell for this question alone
		return false
	}
	kongcompletion.Register(parser, kongcompletion.WithExitFunc(func(int) { done = true }))
	return done
}
