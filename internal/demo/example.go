package demo

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// competitorURL is an address of the example's shops.
var competitorURL = regexp.MustCompile(`https://(shop-\d\d)\.example\.com`)

// documents reads every YAML file of the example. The shops' addresses become
// those of the local web, and with another model its name is set; nothing else
// changes.
func documents(example fs.FS, webURL, model string) ([]document, error) {
	names, err := fs.Glob(example, "*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var docs []document
	shops := 0
	for _, name := range names {
		b, err := fs.ReadFile(example, name)
		if err != nil {
			return nil, err
		}
		text := string(b)
		shops += len(competitorURL.FindAllString(text, -1))
		text = competitorURL.ReplaceAllString(text, strings.TrimRight(webURL, "/")+"/$1")
		if model != "" {
			text = modelName.ReplaceAllString(text, "${1}"+model)
		}
		docs = append(docs, document{File: name, Text: text})
	}
	if shops != shopCount {
		return nil, fmt.Errorf("the example names %d competitors, want %d", shops, shopCount)
	}
	return docs, nil
}

// modelName is the line of a Model document that names the provider's model.
var modelName = regexp.MustCompile(`(?m)^(  model: )claude-\S+$`)
