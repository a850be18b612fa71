/**
 * An object under construction, with writable members. Code that makes thousands of objects sets the members one by
 * one, because spreading objects costs more.
 */
export type Draft<T> = { -readonly [Key in keyof T]: T[Key] };
