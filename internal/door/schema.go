package door

import (
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaNames returns a namer for the OpenAPI document that never gives two
// types one name: the door and a service may both have a Problem. The second
// type of a name carries its package's name in front. The names depend on the
// order of registration, which is fixed by the code.
func schemaNames() func(reflect.Type, string) string {
	owners := map[string]reflect.Type{}
	return func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name := huma.DefaultSchemaNamer(t, hint)
		if t.Name() == "" {
			return name // named by its place, which is unique
		}
		for {
			owner, taken := owners[name]
			if !taken {
				owners[name] = t
				return name
			}
			if owner == t {
				return name
			}
			pkg := path.Base(t.PkgPath())
			name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
		}
	}
}
