// Package logs has records of one logger switched on and off at run time: all of them by a level, and those at Debug by what they are
// about as well, as Unreal does by log categories.
package logs
