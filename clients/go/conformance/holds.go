package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// holds compares a result with what is expected of it.
func (r *runner) holds(where string, want, have any) error {
	wrong := func() error { return fmt.Errorf("%s is %s, expected %s", where, show(have), show(want)) }
	switch want := want.(type) {
	case map[string]any:
		for key, value := range want {
			if strings.HasPrefix(key, "$") {
				ok, err := r.rule(key, value, have)
				if err != nil {
					return fmt.Errorf("%s: %w", where, err)
				}
				if !ok {
					return wrong()
				}
				continue
			}
			fields, ok := have.(map[string]any)
			if !ok {
				return wrong()
			}
			field, ok := fields[key]
			if !ok {
				return fmt.Errorf("%s is %s: it has no %s", where, show(have), key)
			}
			if err := r.holds(where+"."+key, value, field); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return wrong()
		}
		for i := range want {
			if err := r.holds(fmt.Sprintf("%s[%d]", where, i), want[i], list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(want, have) {
		return wrong()
	}
	return nil
}

// rule tells whether a rule holds.
func (r *runner) rule(name string, want, have any) (bool, error) {
	fits := func(want any) func(any) bool {
		return func(one any) bool { return r.holds("", want, one) == nil }
	}
	text, isText := have.(string)
	list, isList := have.([]any)
	switch name {
	case "$contains":
		return isText && strings.Contains(text, want.(string)), nil
	case "$lacks":
		return isText && !strings.Contains(text, want.(string)), nil
	case "$matches":
		found, err := regexp.MatchString(want.(string), text)
		return isText && found, err
	case "$least":
		number, ok := have.(float64)
		return ok && number >= want.(float64), nil
	case "$some":
		return isList && some(list, fits(want)), nil
	case "$none":
		return isList && !some(list, fits(want)), nil
	case "$all":
		wanted := want.([]any)
		all := isList && len(list) == len(wanted)
		for _, w := range wanted {
			all = all && some(list, fits(w))
		}
		return all, nil
	case "$kept":
		return reflect.DeepEqual(r.kept[want.(string)], have), nil
	case "$not":
		return r.holds("", want, have) != nil, nil
	}
	return false, fmt.Errorf("there is no rule %s", name)
}

func some(list []any, fits func(any) bool) bool {
	for _, one := range list {
		if fits(one) {
			return true
		}
	}
	return false
}

// show is a value for a message, as much as one wants to read.
func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > 600 {
		return string(text[:600]) + "..."
	}
	return string(text)
}
