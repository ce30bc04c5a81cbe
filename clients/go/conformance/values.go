package main

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"quiver"
)

// value is a message with the schema's names, as the cases have it.
func value(m proto.Message) map[string]any {
	fields := map[string]any{}
	message := m.ProtoReflect()
	all := message.Descriptor().Fields()
	for i := range all.Len() {
		field := all.Get(i)
		if field.HasPresence() && !message.Has(field) {
			continue
		}
		held := message.Get(field)
		if !field.IsList() {
			fields[string(field.Name())] = plain(field, held)
			continue
		}
		list := []any{}
		for i := range held.List().Len() {
			list = append(list, plain(field, held.List().Get(i)))
		}
		fields[string(field.Name())] = list
	}
	return fields
}

func plain(field protoreflect.FieldDescriptor, held protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return value(held.Message().Interface())
	case protoreflect.EnumKind:
		return word(field.Enum(), held.Enum())
	case protoreflect.BoolKind:
		return held.Bool()
	case protoreflect.StringKind:
		return held.String()
	case protoreflect.BytesKind:
		return string(held.Bytes())
	case protoreflect.DoubleKind:
		return held.Float()
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return float64(held.Int())
	}
	return float64(held.Uint())
}

var betweenWords = regexp.MustCompile("([a-z0-9])([A-Z])")

// upper is a name such as RouteAction as ROUTE_ACTION.
func upper(name string) string {
	return strings.ToUpper(betweenWords.ReplaceAllString(name, "${1}_${2}"))
}

// word is a value of an enumeration in lower case, without the prefix.
func word(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) any {
	named := enum.Values().ByNumber(number)
	if named == nil {
		return float64(number)
	}
	return strings.ToLower(strings.TrimPrefix(string(named.Name()), upper(string(enum.Name()))+"_"))
}

// number is the value of an enumeration with a word.
func number(enum protoreflect.EnumDescriptor, word string) protoreflect.EnumNumber {
	name := upper(string(enum.Name())) + "_" + strings.ToUpper(word)
	if named := enum.Values().ByName(protoreflect.Name(name)); named != nil {
		return named.Number()
	}
	return 0
}

func values[M proto.Message](messages []M) []any {
	list := []any{}
	for _, m := range messages {
		list = append(list, value(m))
	}
	return list
}

func texts(list []string) []any {
	all := []any{}
	for _, text := range list {
		all = append(all, text)
	}
	return all
}

func failureValue(e *quiver.Error) map[string]any {
	return map[string]any{"code": upper(e.Code.String()), "message": e.Message, "errors": values(e.Places)}
}
