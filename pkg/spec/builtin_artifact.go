package spec

// MaxSavedBytes bounds what one call of artifact_save keeps: it travels in the
// call.
const MaxSavedBytes = 256 << 10

// builtinArtifactSave keeps bytes, or the address of a thing elsewhere, with the
// run. Its effect is in the ledger, so a call that is repeated saves once.
var builtinArtifactSave = Builtin{
	Name: BuiltinArtifactSave, By: ByTools, Effect: EffectIdempotent,
	Description: "Saves a result of this task where people find it: a text (text), bytes (base64), or the address of a file, draft or ticket that is kept " +
		"elsewhere (uri, with kind and title). Give exactly one of text, base64 and uri. Returns the id of the artifact.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "File name, like \"report.md\""},
			"type": {"type": "string", "maxLength": 100, "description": "Media type, like \"text/markdown\" or \"image/png\""},
			"text": {"type": "string", "minLength": 1, "maxLength": 262144, "description": "The content, when it is text"},
			"base64": {"type": "string", "minLength": 1, "maxLength": 349528, "description": "The content, when it is bytes: standard base64"},
			"uri": {"type": "string", "minLength": 1, "maxLength": 2000, "description": "Where the thing is, when it is elsewhere"},
			"kind": {"type": "string", "maxLength": 100, "description": "What is there, like \"draft\" or \"ticket\""},
			"title": {"type": "string", "maxLength": 500, "description": "What people call it"}
		},
		"additionalProperties": false
	}`),
}

// builtinArtifactRead reads what the run has left behind, and no other's.
var builtinArtifactRead = Builtin{
	Name: BuiltinArtifactRead, By: ByTools, Effect: EffectRead,
	Description: "Reads an artifact of this task: one that was saved, or one that a tool's answer names because it was not shown whole. " +
		"Give its id, or its name for the newest of that name. Long text comes in parts: go on with offset = next. " +
		"Without id and name it lists the artifacts of this task.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"id": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Like \"a-0f3c…\""},
			"name": {"type": "string", "minLength": 1, "maxLength": 200},
			"offset": {"type": "integer", "minimum": 0, "description": "Byte of the text to begin at; 0 when left out"},
			"length": {"type": "integer", "minimum": 1, "description": "Most bytes to return; as much as is allowed when left out"}
		},
		"additionalProperties": false
	}`),
}
