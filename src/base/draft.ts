/**
 * An object under construction: code that makes a thousand objects at once sets the members one by one instead of
 * spreading objects.
 */
export type Draft<T> = { -readonly [Key in keyof T]: T[Key] };
