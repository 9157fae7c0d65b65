package spec

// builtinFetchPage reads the page at args.url as text.
var builtinFetchPage = Builtin{
	Name: BuiltinFetchPage, By: ByTools, Effect: EffectRead,
	Description: "Fetches one page of the web and returns its title, its readable text and its links.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {"url": {"type": "string", "description": "Address of the page, http or https"}},
		"required": ["url"]
	}`),
}
