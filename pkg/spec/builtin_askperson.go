package spec

// BuiltinAskPerson asks a person, whose answer is the result.
const BuiltinAskPerson = "ask_person"

const maxAskedOf = 200

// AskPerson says whom the calls of a tool ask, and for what.
type AskPerson struct {
	To string `json:"to,omitempty"` // who is asked, in words: "the pricing team"
	// Answer is a schema that answers must fit; nil takes any.
	Answer *Schema `json:"answer,omitempty"`
}

func (x *AskPerson) check(d *decoder, s spot, t *Tool) {
	if t.Builtin != BuiltinAskPerson {
		d.fail(s, "belongs to builtin: ask_person")
		return
	}
	d.text(s.at("to"), x.To, maxAskedOf)
}

// builtinAskPerson is answered by a person, or by the end of their time.
var builtinAskPerson = Builtin{
	Name: BuiltinAskPerson, By: ByRunner, Effect: EffectRead,
	Description: "Asks a person and returns the answer. Ask for what you cannot find out and must not guess; say in the question all that is needed to answer it. " +
		"With choices the answer is one of them. It may take hours; when nobody answers in time the result is an error, expired.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"question": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "In full sentences, with what the person needs to know"},
			"choices": {
				"type": "array", "minItems": 2, "maxItems": 50, "uniqueItems": true,
				"items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "What can be answered; left out, the person writes"
			}
		},
		"required": ["question"],
		"additionalProperties": false
	}`),
}
