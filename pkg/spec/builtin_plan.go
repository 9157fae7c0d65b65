package spec

// Bounds of a plan. An item is one step of it.
const (
	MaxPlanItems     = 200
	MaxPlanItemID    = 64
	MaxPlanItemTitle = 300
	MaxPlanItemNote  = 1000
	MaxPlanBytes     = 64 << 10 // of all text of it
)

// builtinPlan keeps the run's plan. Whole replacement and change by id are two
// arguments, so that a call that names a few items can never be read as a plan
// that consists of them.
var builtinPlan = Builtin{
	Name: BuiltinPlan, By: ByRunner, Effect: EffectIdempotent, Free: true,
	Description: "Keeps your plan for this task, where people see it. Write it once you know the steps, and mark each step as you go: " +
		"in_progress before you begin it, done, failed or skipped when you leave it. " +
		"items replaces the whole plan, in order. update changes the items with the given ids, only in what is given; an id that is new is appended. " +
		"Give one of the two. Without arguments the plan is returned as it stands.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"items": {
				"type": "array", "maxItems": 200, "description": "The whole plan, in order; it replaces the one before",
				"items": {"$ref": "#/$defs/item"}
			},
			"update": {
				"type": "array", "maxItems": 200, "description": "Changes to single items, by id",
				"items": {"$ref": "#/$defs/item"}
			}
		},
		"additionalProperties": false,
		"$defs": {"item": {
			"type": "object",
			"properties": {
				"id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Short and stable, like \"2\" or \"read-prices\""},
				"title": {"type": "string", "minLength": 1, "maxLength": 300, "description": "What is to be done; needed for a new item"},
				"state": {"enum": ["pending", "in_progress", "done", "failed", "skipped"], "description": "pending when left out"},
				"note": {"type": "string", "maxLength": 1000, "description": "What came of it, or why"}
			},
			"required": ["id"],
			"additionalProperties": false
		}}
	}`),
}
