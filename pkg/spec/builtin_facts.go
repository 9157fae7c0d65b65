package spec

// Bounds of what a run knows by name.
const (
	MaxFacts      = 200
	MaxFactName   = 100
	MaxFactBytes  = 16 << 10 // of one value, as canonical JSON
	MaxFactsBytes = 64 << 10 // of all names and values
)

const factNameSchema = `{"type": "string", "minLength": 1, "maxLength": 100}`

// builtinFacts keeps named values of a run.
var builtinFacts = Builtin{
	Name: BuiltinFacts, By: ByRunner, Effect: EffectIdempotent, Free: true,
	Description: "Keeps facts of this task by name, where people see them: numbers, names, ids and decisions that later steps need exactly. " +
		"set writes values (any JSON; numbers keep every digit), delete removes names, get returns values. " +
		"All three may stand in one call; get is answered last. Without arguments all facts are returned.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"set": {"type": "object", "minProperties": 1, "maxProperties": 200, "description": "Name to value, like {\"price_eur\": 12.90}"},
			"delete": {"type": "array", "maxItems": 200, "items": ` + factNameSchema + `, "description": "Names to forget"},
			"get": {"type": "array", "maxItems": 200, "items": ` + factNameSchema + `, "description": "Names to return"}
		},
		"additionalProperties": false
	}`),
}
