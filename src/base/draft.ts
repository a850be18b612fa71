/** An object being put together: where it is made a thousand times at once, members are set one by one instead of spread. */
export type Draft<T> = { -readonly [Key in keyof T]: T[Key] };
